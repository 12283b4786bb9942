"""What drivers and an application see of a server, printed. Usage: clients.py PORT [psycopg|sqlalchemy|django]"""
import sys

port, what = int(sys.argv[1]), sys.argv[2]
url = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"


def psycopg_client():
    import psycopg

    with psycopg.connect(url, autocommit=True) as c:
        c.execute("DROP TABLE IF EXISTS p")
        c.execute("CREATE TABLE p (id int PRIMARY KEY, v text, b bytea)")
        for i in range(12):  # from the fifth on by name
            print(c.execute("INSERT INTO p VALUES (%s, %s, %s) RETURNING id, b", (i, f"ä{i}", bytes([i]))).fetchall())
        print(c.execute("SELECT * FROM p ORDER BY id", binary=True).fetchall())
        with c.cursor().copy("COPY p (id, v) FROM STDIN") as copy:
            for i in range(100, 2000):
                copy.write_row((i, "x" * 100))
        with c.cursor().copy("COPY p (id, v) TO STDOUT") as copy:
            print(sum(len(chunk) for chunk in copy))
        try:
            with c.cursor().copy("COPY p (id, v) FROM STDIN") as copy:
                copy.write_row(("bad", "x"))
        except psycopg.Error as e:
            print(e.sqlstate, e.diag.message_primary)
        with c.pipeline():
            cursors = [c.execute("SELECT %s::int + 1", (i,)) for i in range(50)]
            print([cursor.fetchone() for cursor in cursors])
        try:
            with c.pipeline():
                c.execute("INSERT INTO p VALUES (50, 'fifty')")
                c.execute("INSERT INTO p VALUES (50, 'again')")
                c.execute("INSERT INTO p VALUES (51, 'ignored')")
        except psycopg.Error as e:
            print(e.sqlstate)
        print(c.execute("SELECT id FROM p WHERE id IN (50, 51)").fetchall())
        c.execute("LISTEN channel")
        c.execute("NOTIFY channel, 'hello'")
        print([(n.channel, n.payload) for n in c.notifies(timeout=5, stop_after=1)])
        with c.transaction():
            with c.cursor(name="server_side") as cursor:
                cursor.itersize = 7
                cursor.execute("SELECT id FROM p ORDER BY id LIMIT 30")
                print([row[0] for row in cursor])
        try:
            with c.transaction():
                c.execute("INSERT INTO p VALUES (60, 'sixty')")
                try:
                    with c.transaction():
                        c.execute("SELECT 1/0")
                except psycopg.Error as e:
                    print(e.sqlstate, c.info.transaction_status.name)
                print(c.execute("SELECT count(*) FROM p WHERE id = 60").fetchone())
                raise KeyError
        except KeyError:
            print(c.execute("SELECT count(*) FROM p WHERE id = 60").fetchone(), c.info.transaction_status.name)
        c.execute("DROP TABLE p")


def sqlalchemy_client():
    import sqlalchemy as sa

    engine = sa.create_engine(f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres")
    meta = sa.MetaData()
    t = sa.Table("sa_t", meta, sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(20), unique=True))
    meta.drop_all(engine)
    meta.create_all(engine)
    with engine.begin() as c:
        c.execute(t.insert(), [{"name": f"n{i}"} for i in range(30)])
    with engine.connect() as c:
        print(c.execute(sa.select(t).where(t.c.id > 20)).fetchall())
        try:
            c.execute(t.insert().values(name="n1"))
        except sa.exc.IntegrityError as e:
            print(e.orig.sqlstate)
    inspected = sa.inspect(engine)
    print(inspected.get_columns("sa_t"), inspected.get_unique_constraints("sa_t"), inspected.get_pk_constraint("sa_t"))
    meta.drop_all(engine)


def django_client():
    from django.conf import settings

    database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1", "PORT": port}
    apps = ["django.contrib.contenttypes", "django.contrib.auth"]
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=apps, DEFAULT_AUTO_FIELD="django.db.models.AutoField", USE_TZ=True)
    import django

    django.setup()
    from django.contrib.auth.models import Group, User
    from django.core.management import call_command
    from django.db import IntegrityError, connection, transaction
    from django.db.models import Count, F

    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    call_command("migrate", verbosity=1)
    call_command("migrate", "auth", "zero", verbosity=1)
    call_command("migrate", verbosity=0)
    for i in range(10):
        User.objects.create(username=f"u{i}")
    groups = Group.objects.bulk_create([Group(name=f"g{i}") for i in range(5)])
    for user in User.objects.all():
        user.groups.set(groups[: user.id % 3])
    print(list(User.objects.annotate(n=Count("groups")).order_by("id").values_list("username", "n")))
    with transaction.atomic():
        locked = User.objects.select_for_update().get(username="u1")
        locked.first_name = "locked"
        locked.save()
        try:
            with transaction.atomic():
                User.objects.create(username="u2")
        except IntegrityError as e:
            print(type(e).__name__)
        print(User.objects.count())
    User.objects.filter(username__startswith="u").update(last_name=F("username"))
    print(list(User.objects.filter(last_name="u3").values_list("id", "first_name", "last_name")))
    print([user.username for user in User.objects.order_by("-id").iterator(chunk_size=3)])
    print(User.objects.get_or_create(username="u4")[1], Group.objects.get_or_create(name="new")[1])
    print(sorted(connection.introspection.table_names()))
    print(User.objects.filter(groups__name="g1").delete()[0] > 0, User.objects.count())
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


{"psycopg": psycopg_client, "sqlalchemy": sqlalchemy_client, "django": django_client}[what]()
