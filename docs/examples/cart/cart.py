"""A shopping cart in SQL, twice: as one JSON text per customer, and as one row per item."""

import json
import os

from sqlalchemy import create_engine, text


def connect():
    url = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://", 1)
    return create_engine(url)


def create_tables(engine):
    with engine.begin() as db:
        db.execute(text("CREATE TABLE cart (customer INT PRIMARY KEY, items TEXT NOT NULL)"))
        db.execute(text("CREATE TABLE item (customer INT, name VARCHAR(20), PRIMARY KEY (customer, name))"))
        db.execute(text("INSERT INTO cart VALUES (1, '[]')"))


class Broken:
    """Read the cart, add to it, write it back: a transaction that does not see the other one overwrites it."""

    @staticmethod
    def add(db, customer, item):
        items = json.loads(db.execute(text("SELECT items FROM cart WHERE customer = :c"), {"c": customer}).scalar_one())
        items.append(item)
        db.execute(text("UPDATE cart SET items = :i WHERE customer = :c"), {"i": json.dumps(items), "c": customer})

    @staticmethod
    def items(db, customer):
        return json.loads(db.execute(text("SELECT items FROM cart WHERE customer = :c"), {"c": customer}).scalar_one())


class Fixed:
    """A row per item: adding one overwrites nothing."""

    @staticmethod
    def add(db, customer, item):
        db.execute(text("INSERT INTO item VALUES (:c, :n)"), {"c": customer, "n": item})

    @staticmethod
    def items(db, customer):
        return list(db.execute(text("SELECT name FROM item WHERE customer = :c"), {"c": customer}).scalars())


if __name__ == "__main__":
    create_tables(connect())
