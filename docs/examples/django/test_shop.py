import os
import threading

import django
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()
from django.db import OperationalError, connection
from shop.models import Product, buy


def sell(lock):
    """Two customers buy three of five. Returns what they took, and what is left."""
    taken = [0, 0]

    def customer(number):
        try:
            taken[number] = buy(1, 3, lock)
        except OperationalError:
            pass  # refused: a real application would try again
        finally:
            connection.close()

    threads = [threading.Thread(target=customer, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with connection.cursor() as cursor:
        cursor.execute("SET anomalist.latest = on")  # the assertion reads the newest values
    return sum(taken), Product.objects.get(pk=1).stock


def test_unlocked():
    taken, left = sell(lock=False)
    assert taken + left == 5


def test_locked():
    taken, left = sell(lock=True)
    assert taken + left == 5
