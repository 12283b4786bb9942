// Before anything is drawn: the theme that was chosen last, so that the page does not flash.
(() => {
  try {
    const chosen = localStorage.getItem('anomalist-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch {
    // Without storage the system's theme is used.
  }
})();
