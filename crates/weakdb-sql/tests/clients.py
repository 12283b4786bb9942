"""Real clients against a weakdb at the serializable level. Usage: clients.py PGPORT MYPORT"""
import sys

pg_port, my_port = int(sys.argv[1]), int(sys.argv[2])


def expect(found, wanted, what):
    assert found == wanted, f"{what}: {found!r}, not {wanted!r}"


def psycopg_client():
    import psycopg

    url = f"host=127.0.0.1 port={pg_port} user=postgres dbname=weakdb"
    with psycopg.connect(url) as c:
        c.execute("CREATE TABLE p (id INT PRIMARY KEY, name TEXT, price NUMERIC(8,2), ok BOOLEAN, at TIMESTAMP, raw BYTEA)")
        c.commit()
        import datetime
        import decimal

        at = datetime.datetime(2026, 11, 16, 8, 28, 0, 500000)
        row = (1, "näme's", decimal.Decimal("12.50"), True, at, b"\x00\xff")
        c.execute("INSERT INTO p VALUES (%s, %s, %s, %s, %s, %s)", row)
        c.execute("INSERT INTO p (id, name) VALUES (%s, %s)", (2, None))
        expect(c.execute("SELECT * FROM p WHERE id = %s", (1,)).fetchone(), row, "psycopg row")
        expect(c.execute("SELECT * FROM p WHERE id = %s", (1,), binary=True).fetchone(), row, "psycopg binary row")
        expect(c.execute("SELECT name, price FROM p WHERE id = 2").fetchone(), (None, None), "psycopg NULL")
        for i in range(8):  # from the fifth on by name
            expect(c.execute("SELECT count(*) FROM p WHERE id <= %s", (i,)).fetchone(), (min(i, 2),), "psycopg prepared")
        c.rollback()
        expect(c.execute("SELECT count(*) FROM p").fetchone(), (0,), "psycopg rollback")
        c.commit()
        c.execute("INSERT INTO p (id) VALUES (1)")
        try:
            c.execute("INSERT INTO p (id) VALUES (1)")
            raise AssertionError("no error")
        except psycopg.errors.UniqueViolation as e:
            expect(e.diag.constraint_name, "p_pkey", "psycopg constraint")
        try:
            c.execute("SELECT 1")
            raise AssertionError("no error")
        except psycopg.errors.InFailedSqlTransaction:
            pass
        c.rollback()
        with c.transaction():
            c.execute("INSERT INTO p (id) VALUES (7)")
            try:
                with c.transaction():
                    c.execute("INSERT INTO p (id) VALUES (8)")
                    raise KeyError
            except KeyError:
                pass
        expect(c.execute("SELECT id FROM p").fetchall(), [(7,)], "psycopg savepoint")
        c.commit()
        with c.pipeline():
            a = c.execute("SELECT 1 + %s", (1,))
            b = c.execute("UPDATE p SET name = 'x' RETURNING name")
            expect((a.fetchone(), b.fetchone()), ((2,), ("x",)), "psycopg pipeline")
        c.commit()
        expect(c.execute("SELECT id FROM p WHERE id = ANY(%s)", ([5, 7],)).fetchall(), [(7,)], "psycopg list")
        lists = "SELECT array_agg(n ORDER BY n DESC), ARRAY['a', NULL, 'b c'], array_agg(n > 1) FROM generate_series(1, 2) n"
        for binary in (False, True):
            found = c.execute(lists, binary=binary).fetchone()
            expect(found, ([2, 1], ["a", None, "b c"], [False, True]), "psycopg lists")
        c.rollback()
        for hold in (False, True):
            with c.cursor("rows", withhold=hold) as rows:
                rows.itersize = 3
                rows.execute("SELECT n, n::text AS t FROM generate_series(1, %s) AS s(n)", (8,))
                if hold:
                    c.commit()
                expect([d.name for d in rows.description], ["n", "t"], "psycopg cursor's columns")
                expect(list(rows), [(n, str(n)) for n in range(1, 9)], "psycopg cursor")
            c.rollback()
        c.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        expect(c.execute("SHOW transaction_isolation").fetchone(), ("serializable",), "psycopg level")
    with psycopg.connect(url) as a, psycopg.connect(url) as b:
        for c in (a, b):
            c.execute("UPDATE p SET name = name || 'y' WHERE id = 7")
        a.commit()
        try:
            b.commit()
            raise AssertionError("no error")
        except psycopg.errors.SerializationFailure:
            pass


def sqlalchemy_client(url, kind):
    import sqlalchemy as sa
    from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

    class Base(DeclarativeBase):
        pass

    class Author(Base):
        __tablename__ = f"author_{kind}"
        id: Mapped[int] = mapped_column(primary_key=True)
        name: Mapped[str] = mapped_column(sa.String(30), unique=True)
        born: Mapped[int | None]
        books: Mapped[list["Book"]] = relationship(back_populates="author")

    class Book(Base):
        __tablename__ = f"book_{kind}"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str] = mapped_column(sa.String(30))
        author_id: Mapped[int] = mapped_column(sa.ForeignKey(f"author_{kind}.id"))
        author: Mapped[Author] = relationship(back_populates="books")

    engine = sa.create_engine(url)
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)  # finds that all is there
    with Session(engine) as s:
        s.add(Author(name="Ann", books=[Book(title="A"), Book(title="B")]))
        s.add(Author(name="Bob", born=1970))
        s.commit()
        names = s.scalars(sa.select(Author.name).join(Author.books).group_by(Author.name)).all()
        expect(names, ["Ann"], f"SQLAlchemy {kind} join")
        ann = s.scalars(sa.select(Author).where(Author.name == "Ann")).one()
        expect([b.title for b in ann.books], ["A", "B"], f"SQLAlchemy {kind} lazy load")
        expect(ann.born, None, f"SQLAlchemy {kind} NULL")
        ann.name = "Anna"
        s.commit()
        s.add(Author(name="Bob"))
        try:
            s.commit()
            raise AssertionError("no error")
        except sa.exc.IntegrityError:
            s.rollback()
        expect(s.scalar(sa.select(sa.func.count()).select_from(Author)), 2, f"SQLAlchemy {kind} count")
        s.delete(s.get(Book, 1))
        s.commit()
        expect(s.scalars(sa.select(Book.id).order_by(Book.id.desc()).limit(1)).all(), [2], f"SQLAlchemy {kind} delete")
        streamed = s.execute(sa.select(Author.name).order_by(Author.name), execution_options={"yield_per": 1})
        expect([name for (name,) in streamed], ["Anna", "Bob"], f"SQLAlchemy {kind} stream")
    expect(sa.inspect(engine).has_table(f"book_{kind}"), True, f"SQLAlchemy {kind} inspect")
    expect(sa.inspect(engine).has_table("nothing"), False, f"SQLAlchemy {kind} inspect")
    reflected = sa.MetaData()
    reflected.reflect(engine, only=[f"book_{kind}"])  # finds the other by its foreign key
    book, author = reflected.tables[f"book_{kind}"], reflected.tables[f"author_{kind}"]
    expect([c.name for c in book.primary_key], ["id"], f"SQLAlchemy {kind} reflected key")
    expect([f.column for f in book.c.author_id.foreign_keys], [author.c.id], f"SQLAlchemy {kind} reflected foreign key")
    columns = [(c.name, c.type.python_type, c.nullable) for c in author.c]
    expect(columns, [("id", int, False), ("name", str, False), ("born", int, True)], f"SQLAlchemy {kind} reflected columns")
    expect(author.c.name.type.length, 30, f"SQLAlchemy {kind} reflected length")
    unique = sa.inspect(engine).get_unique_constraints(f"author_{kind}")
    expect([u["column_names"] for u in unique], [["name"]], f"SQLAlchemy {kind} reflected constraint")
    with engine.begin() as c:
        c.execute(sa.insert(book).values(title="C", author_id=2))
        expect(c.scalar(sa.select(book.c.title).where(book.c.author_id == 2)), "C", f"SQLAlchemy {kind} reflected table")
    engine.dispose()


def pymysql_client():
    import pymysql

    def connect(**more):
        return pymysql.connect(host="127.0.0.1", port=my_port, user="root", password="any", database="weakdb", **more)

    c = connect()
    expect(c.get_autocommit(), False, "PyMySQL autocommit")
    cur = c.cursor()
    cur.execute("CREATE TABLE m (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), n DECIMAL(8,2), at DATETIME)")
    cur.execute("INSERT INTO m (v, n, at) VALUES (%s, %s, %s)", ("it's \\ 'x'", "1.50", "2026-11-16 08:28:00"))
    expect(cur.lastrowid, 1, "PyMySQL lastrowid")
    cur.execute("INSERT INTO m (v) VALUES (NULL)")
    cur.execute("SELECT id, v, n, at FROM m ORDER BY id")
    import datetime
    import decimal

    first = (1, "it's \\ 'x'", decimal.Decimal("1.50"), datetime.datetime(2026, 11, 16, 8, 28))
    expect(cur.fetchall(), (first, (2, None, None, None)), "PyMySQL rows")
    c.rollback()
    cur.execute("SELECT count(*) FROM m")
    expect(cur.fetchone(), (0,), "PyMySQL rollback")
    cur.execute("INSERT INTO m (id) VALUES (5)")
    try:
        cur.execute("INSERT INTO m (id) VALUES (5)")
        raise AssertionError("no error")
    except pymysql.err.IntegrityError as e:
        expect(e.args[0], 1062, "PyMySQL code")
    c.commit()
    try:
        cur.execute("SELECT * FROM nothing")
        raise AssertionError("no error")
    except pymysql.err.ProgrammingError as e:
        expect(e.args[0], 1146, "PyMySQL code")
    try:
        cur.execute("CREATE TRIGGER t BEFORE INSERT ON m FOR EACH ROW SET NEW.v = 1")
        raise AssertionError("no error")
    except pymysql.err.MySQLError as e:
        assert e.args[0] in (1235, 1064), e
    d = connect()
    for x in (c, d):
        x.cursor().execute("UPDATE m SET v = concat(coalesce(v, ''), 'y') WHERE id = 5")
    c.commit()
    try:
        d.commit()
        raise AssertionError("no error")
    except pymysql.err.OperationalError as e:
        expect(e.args[0], 1213, "PyMySQL code")
    c.close()
    d.close()


psycopg_client()
pymysql_client()
def django_client():
    import django
    import pymysql
    from django.conf import settings
    from django.core.management import call_command
    from django.db import IntegrityError, connections, transaction
    from django.db.models import Count

    pymysql.version_info = (2, 2, 7, "final", 0)  # Django asks for mysqlclient, whose place PyMySQL takes
    pymysql.install_as_MySQLdb()
    server = {"HOST": "127.0.0.1", "NAME": "weakdb"}
    databases = {
        "default": {"ENGINE": "django.db.backends.postgresql", "PORT": pg_port, "USER": "postgres", **server},
        "my": {"ENGINE": "django.db.backends.mysql", "PORT": my_port, "USER": "root", **server},
    }
    apps = ["django.contrib.contenttypes", "django.contrib.auth"]
    settings.configure(DATABASES=databases, INSTALLED_APPS=apps, USE_TZ=True, SECRET_KEY="x")
    django.setup()
    from django.contrib.auth.models import Group, User

    for db in databases:
        call_command("migrate", database=db, verbosity=0)
        users, groups = User.objects.using(db), Group.objects.using(db)
        ann = users.create(username="ann")
        groups.bulk_create([Group(name=f"g{i}") for i in range(3)])
        ann.groups.add(*groups.filter(name__in=["g0", "g2"]))
        counted = users.annotate(n=Count("groups")).values_list("username", "n")
        expect(list(counted), [("ann", 2)], f"Django {db} join")
        with transaction.atomic(using=db):
            locked = users.select_for_update().get(pk=ann.pk)
            locked.first_name = "Ann"
            locked.save()
        expect(users.filter(first_name__icontains="NN", date_joined__year__gte=2020).count(), 1, f"Django {db} filter")
        try:
            with transaction.atomic(using=db):
                users.create(username="ann")
            raise AssertionError("no error")
        except IntegrityError:
            pass
        with connections[db].cursor() as cursor:
            look = connections[db].introspection
            found = look.get_relations(cursor, "auth_user_groups")
            expect(found["group_id"], ("id", "auth_group"), f"Django {db} foreign key")
            unique = [c for c in look.get_constraints(cursor, "auth_user").values() if c["unique"]]
            expect(sorted(c["columns"] for c in unique), [["id"], ["username"]], f"Django {db} constraints")
        names = [group.name for group in groups.order_by("name").iterator(chunk_size=2)]
        expect(names, ["g0", "g1", "g2"], f"Django {db} iterator")
        ann.delete()
        expect(users.count(), 0, f"Django {db} delete")
        # Both are one database: the other one is to make its own tables.
        for app in ("auth", "contenttypes"):
            call_command("migrate", app, "zero", database=db, verbosity=0)
        connections[db].close()


sqlalchemy_client(f"postgresql+psycopg://postgres@127.0.0.1:{pg_port}/weakdb", "pg")
sqlalchemy_client(f"mysql+pymysql://root@127.0.0.1:{my_port}/weakdb", "my")
django_client()
print("all clients agree")
