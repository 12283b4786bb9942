import java.sql.*;

/** MariaDB Connector/J against a weakdb at the serializable level. Usage: java -cp … Client.java PORT */
public class Client {
    static void expect(Object found, Object wanted, String what) {
        if (!String.valueOf(found).equals(String.valueOf(wanted))) {
            throw new AssertionError(what + ": " + found + ", not " + wanted);
        }
    }

    public static void main(String[] args) throws Exception {
        for (boolean prepared : new boolean[] {false, true}) {
            String url = "jdbc:mariadb://127.0.0.1:" + args[0] + "/weakdb?user=root&useServerPrepStmts=" + prepared;
            String table = "j" + (prepared ? 1 : 0);
            try (Connection c = DriverManager.getConnection(url); Connection d = DriverManager.getConnection(url)) {
                try (Statement s = c.createStatement()) {
                    s.execute("CREATE TABLE " + table + " (id INT PRIMARY KEY, v VARCHAR(20), n BIGINT)");
                }
                c.setAutoCommit(false);
                try (PreparedStatement p = c.prepareStatement("INSERT INTO " + table + " VALUES (?, ?, ?)")) {
                    for (int i = 1; i <= 3; i++) {
                        p.setInt(1, i);
                        if (i == 2) p.setNull(2, Types.VARCHAR); else p.setString(2, "it's " + i);
                        p.setLong(3, 1L << 40);
                        expect(p.executeUpdate(), 1, "insert");
                    }
                }
                c.commit();
                try (PreparedStatement p = c.prepareStatement("SELECT v, n FROM " + table + " WHERE id >= ? ORDER BY id")) {
                    p.setInt(1, 1);
                    ResultSet r = p.executeQuery();
                    r.next();
                    expect(r.getString(1), "it's 1", "text");
                    expect(r.getLong(2), 1L << 40, "number");
                    r.next();
                    expect(r.getString(1), null, "NULL");
                }
                try (Statement s = c.createStatement()) {
                    expect(s.executeUpdate("UPDATE " + table + " SET n = 0"), 3, "update");
                    c.rollback();
                    ResultSet r = s.executeQuery("SELECT sum(n) FROM " + table);
                    r.next();
                    expect(r.getLong(1), 3L << 40, "rollback");
                    c.commit();
                    Savepoint point = c.setSavepoint("p");
                    s.executeUpdate("DELETE FROM " + table);
                    c.rollback(point);
                    c.commit();
                    try {
                        s.executeUpdate("INSERT INTO " + table + " VALUES (1, '', 0)");
                        throw new AssertionError("no error");
                    } catch (SQLException e) {
                        expect(e.getErrorCode(), 1062, "code");
                        expect(e.getSQLState(), "23000", "state");
                    }
                    c.rollback();
                }
                d.setAutoCommit(false);
                for (Connection x : new Connection[] {c, d}) {
                    try (Statement s = x.createStatement()) {
                        s.executeUpdate("UPDATE " + table + " SET n = n + 1 WHERE id = 1");
                    }
                }
                c.commit();
                try {
                    d.commit();
                    throw new AssertionError("no error");
                } catch (SQLException e) {
                    expect(e.getErrorCode(), 1213, "code");
                    expect(e.getSQLState(), "40001", "state");
                }
            }
        }
        System.out.println("Connector/J agrees");
    }
}
