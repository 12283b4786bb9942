"""Two devices of one customer add an item each; afterwards both are in the cart.

anomalist explore --level causal --setup "python cart.py" -- pytest -k broken    fails
anomalist explore --level causal --setup "python cart.py" -- pytest -k fixed     passes
"""

import pytest
from sqlalchemy import text

from cart import Broken, Fixed, connect


@pytest.mark.parametrize("cart", [Broken, Fixed], ids=["broken", "fixed"])
def test_nothing_is_lost(cart):
    phone, laptop, customer = connect(), connect(), connect()
    with phone.begin() as db:
        cart.add(db, 1, "apple")
    with laptop.begin() as db:
        cart.add(db, 1, "pear")
    with customer.connect() as db:
        # The assertion is about the cart, not about a stale look at it.
        db.execute(text("SET anomalist.latest = on"))
        db.commit()
        assert sorted(cart.items(db, 1)) == ["apple", "pear"]
