"use strict";
// Copies the script beside a button. A link to an anomaly opens it.
document.documentElement.classList.add("js");
for (const button of document.querySelectorAll("button[data-copies]")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copies).textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
      button.textContent = "Selected: copy it";
    }
  });
}
const open = () => {
  const target = document.getElementById(location.hash.slice(1));
  // What is folded around it is opened too.
  for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  target?.scrollIntoView();
};
addEventListener("hashchange", open);
open();
