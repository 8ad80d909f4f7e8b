internal import CPostgres
internal import Foundation
public import PushCore

/// How a PostgreSQL database is reached: what the configuration's `store` section says, checked.
///
/// A connection off the machine is encrypted and its server's name checked (`sslmode=verify-full`) unless the URL says
/// otherwise. The password may stand in the URL, but belongs into ``password``, which comes from the environment or a
/// file.
public struct PostgresOptions: Sendable, CustomStringConvertible {
    /// A URL that is not to be used, and what to write instead.
    public struct Mistake: Error, Hashable, CustomStringConvertible {
        /// The sentence.
        public let description: String
    }

    /// What a URL may say behind its question mark.
    ///
    /// Nothing that is kept in a session belongs there: behind a pooler a session is not ours.
    static let keywords: Set<String> = [
        "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "dbname",
        "password", "port",
        "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "target_session_attrs", "user",
    ]
    /// What libpq takes for such a keyword; of a wrong word it says nothing before it connects.
    private static let words: [String: [String]] = [
        "channel_binding": ["disable", "prefer", "require"], "gssencmode": ["disable", "prefer", "require"],
        "sslmode": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
        "target_session_attrs": ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"],
    ]
    /// What to do about a password that cannot stand in a URL as it is.
    private static let encoding = "encode @ / : in the password as %40 %2F %3A, or use store.password"
    /// Where Debian and others keep the authorities that the system trusts.
    private static let systemAuthorities = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]

    /// What libpq gets, by keyword; without the password.
    let parameters: [String: String]
    /// The password; nil where the server asks for none.
    public var password: Secret?
    /// A statement that takes longer is given up, and the connection with it.
    public var statementTimeout = Duration.seconds(30)
    /// Whether statements are prepared once for each connection; not behind a pooler that shares connections by the
    /// transaction.
    public var preparesStatements = true
    /// What this gateway is called among those that share the database.
    public var nodeName = ProcessInfo.processInfo.hostName
    /// After so long without a sign of life a node counts as dead, and others take over what it had claimed.
    public var nodeLease = Duration.seconds(15)
    /// Whether other nodes' work is looked for each second only, without a connection that listens for notifications.
    public var pollsOnly = false
    /// With so many waiting deliveries new work is refused.
    public var maximumWaiting = 5_000_000
    /// The schema that all tables are in; it is made when it is missing.
    ///
    /// A name that needs no quotes: letters a to z, digits and underscores, 63 at most, beginning with a letter and not
    /// as the server's own do (`pg_`). A store with another name does not open.
    public var schema = "chapar"
    /// The most changes of devices that may wait for the planner; above it changes are refused.
    package var maximumUnplannedChanges = 10_000
    /// A look for what was due long ago that takes less is no burden; longer where tests run on a machine that is busy.
    var cheapLook = PortionedLooks.cheap
    /// What reads all that waits, such as a count, reads so many of its pages with a statement: 32 MB of pages of the
    /// usual size.
    var pagesOfPortion: Int64 = 4_096
    /// The number of claims that a transaction gives back, takes over or hands over at most.
    var claimsOfPortion: Int64 = 5_000
    /// The openings of every connection that is made with these options, or with a copy of them.
    let openings = PostgresOpenings()
    /// A search through the registry looks at so many rows at a time.
    var rowsPerScan = 1_000

    /// Reads a URL such as `postgres://chapar@db.example.org/chapar`.
    ///
    /// - Parameters:
    ///   - url: As libpq reads it; several hosts may stand in it.
    ///   - password: In place of the URL's.
    /// - Throws: ``Mistake``, which names the part and what to write, and never the password, nor what may be a part of
    ///   it.
    public init(url: String, password: Secret? = nil) throws(Mistake) {
        guard url.hasPrefix("postgres://") || url.hasPrefix("postgresql://") else {
            throw Mistake(description: "must begin with postgres://, as in postgres://chapar@db.example.org/chapar")
        }
        try Self.check(url)
        var found = try Self.parse(url)
        if let text = found.removeValue(forKey: "password") { self.password = Secret(text) }
        if let password { self.password = password }
        try Self.check(found)
        guard found["dbname"] != nil else {
            throw Mistake(description: "names no database: write it behind the host, as in postgres://…/chapar")
        }
        if found["sslmode"] == nil, !Self.isLocal(found, ProcessInfo.processInfo.environment) {
            found["sslmode"] = "verify-full"
        }
        if found["sslmode"]?.hasPrefix("verify-") == true, found["sslrootcert"] == nil {
            found["sslrootcert"] = Self.systemAuthorities.first { FileManager.default.isReadableFile(atPath: $0) }
        }
        found["application_name"] = found["application_name"] ?? "chapar"
        found["connect_timeout"] = found["connect_timeout"] ?? "5"
        found["client_encoding"] = "UTF8"
        // A host that is gone says nothing: without these what is written to it would be waited for as long as the
        // system likes.
        found["tcp_user_timeout"] = "30000"
        found["keepalives_idle"] = "30"
        found["keepalives_interval"] = "10"
        found["keepalives_count"] = "3"
        parameters = found
    }

    /// Statements with the configured schema in place of `chapar`.
    func inSchema(_ statements: String) -> String {
        schema == "chapar"
            ? statements
            : statements.replacing("chapar.", with: schema + ".")
                .replacing("SCHEMA IF NOT EXISTS chapar", with: "SCHEMA IF NOT EXISTS \(schema)")
    }

    /// The channel of notifications, as statements write it, which get the schema's name by ``inSchema(_:)``.
    ///
    /// The server takes 63 bytes. With a longer name of the schema it is that name alone, which no other schema's
    /// channel can be: a name without quotes has no dot.
    var channel: String { schema.utf8.count > Self.longestOfChannel ? schema : "chapar.work" }
    private static let longestOfChannel = 63 - ".work".utf8.count

    /// Who connects, where the URL says it.
    var user: String? { parameters["user"] }

    /// Whether every host is this machine, whether the URL says it or libpq's variables of the environment.
    static func isLocal(_ parameters: [String: String], _ environment: [String: String]) -> Bool {
        func list(_ keyword: String, _ variable: String) -> [Substring] {
            (parameters[keyword] ?? environment[variable] ?? "").split(separator: ",", omittingEmptySubsequences: false)
        }
        let (names, addresses) = (list("host", "PGHOST"), list("hostaddr", "PGHOSTADDR"))
        return (0..<max(names.count, addresses.count)).allSatisfy { place in
            // The address counts where there is one.
            let hosts = [addresses, names].compactMap { $0.indices.contains(place) ? $0[place] : nil }
            guard let host = hosts.first(where: { !$0.isEmpty }) else { return true }
            return host.hasPrefix("/") || host.hasPrefix("@") || Loopback.contains(host: String(host))
        }
    }

    /// Refuses what libpq would read otherwise than it is meant: an `@` or `/` of a password that is taken for the end
    /// of it.
    ///
    /// Nothing of the text is repeated but a keyword where no `@` follows: any other part may be one of the password.
    private static func check(_ url: String) throws(Mistake) {
        // By scalars, as libpq reads bytes: to Swift an @ and a mark that joins it are one character, and no @.
        let all = url.unicodeScalars
        let rest = all.dropFirst(url.hasPrefix("postgres://") ? "postgres://".count : "postgresql://".count)
        let user = rest.prefix { $0 != "/" }.firstIndex(of: "@")
        let behind = user.map { rest[rest.index(after: $0)...] } ?? rest
        let place = behind.prefix { $0 != "?" }
        guard !place.contains("@") else {
            throw Mistake(description: "has an @ that ends no user or password: \(encoding)")
        }
        let query = behind.dropFirst(place.count + 1)
        for pair in query.split(separator: "&") {
            let name = String(pair.prefix { $0 != "=" })
            let isWord = name.utf8.allSatisfy {
                UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20 || $0 == UInt8(ascii: "_")
            }
            // libpq itself takes ssl=true for sslmode=require.
            guard isWord, pair.contains("="), name != "ssl", !keywords.contains(name) else { continue }
            guard !query.contains("@") else {
                throw Mistake(description: "has a keyword that is not known: \(encoding)")
            }
            throw unknown(name)
        }
    }

    /// Refuses values that libpq would find wrong only when it connects.
    private static func check(_ found: [String: String]) throws(Mistake) {
        for name in found.keys.sorted() where !keywords.contains(name) { throw unknown(name) }
        // A path of a socket, or the name of an abstract one, may have an @.
        for host in (found["host"] ?? "").split(separator: ",")
        where host.unicodeScalars.contains("@") && !host.hasPrefix("/") && !host.hasPrefix("@") {
            throw Mistake(description: "names a host that is none: \(encoding)")
        }
        for port in (found["port"] ?? "").split(separator: ",") where UInt16(port) ?? 0 == 0 {
            throw Mistake(
                description: "names a port that is no number from 1 to 65535: write one, as in :5432; and \(encoding)"
            )
        }
        for (name, allowed) in words.sorted(by: { $0.key < $1.key }) {
            guard let value = found[name], !allowed.contains(value) else { continue }
            throw Mistake(description: "?\(name)= is none of \(allowed.joined(separator: ", "))")
        }
        if let seconds = found["connect_timeout"], Int32(seconds) == nil {
            throw Mistake(description: "?connect_timeout= is no whole number of seconds")
        }
    }

    private static func unknown(_ name: String) -> Mistake {
        let hint = name == "schema" ? "; the schema is store.schema" : ""
        return Mistake(
            description: "?\(name)= is not known here; \(keywords.sorted().joined(separator: ", ")) are\(hint)"
        )
    }

    private static func parse(_ url: String) throws(Mistake) -> [String: String] {
        var message: UnsafeMutablePointer<CChar>?
        guard let first = PQconninfoParse(url, &message) else {
            // libpq's message repeats the URL, in which a password may stand.
            PQfreemem(message)
            throw Mistake(
                description: "cannot be read as postgres://USER@HOST:PORT/DATABASE?KEYWORD=VALUE; "
                    + "encode % @ / : in the password as %25 %40 %2F %3A, or use store.password"
            )
        }
        defer { PQconninfoFree(first) }
        var found: [String: String] = [:]
        var option = first
        while let keyword = option.pointee.keyword {
            if let value = option.pointee.val { found[String(cString: keyword)] = String(cString: value) }
            option += 1
        }
        return found
    }

    /// Where it is, for logs and messages: user, host, port and database.
    public var description: String {
        let port = parameters["port"].map { ":\($0)" } ?? ""
        let user = parameters["user"].map { "\($0)@" } ?? ""
        let host = parameters["host"] ?? parameters["hostaddr"] ?? "localhost"
        return "postgres://\(user)\(host)\(port)/\(parameters["dbname"] ?? "")"
    }
}
