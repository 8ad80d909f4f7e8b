internal import CChaparPostgres
internal import Foundation
public import ChaparCore

/// The checked options of a PostgreSQL database, from the `store` section of the configuration.
///
/// A connection to another machine is encrypted and the server's name is checked (`sslmode=verify-full`) unless the URL
/// says otherwise. The password may be in the URL, but belongs in ``password``, which comes from the environment or a
/// file.
public struct PostgresOptions: Sendable, CustomStringConvertible {
    /// A URL that cannot be used, and what to write instead.
    public struct Mistake: Error, Hashable, CustomStringConvertible {
        /// The error as a sentence.
        public let description: String
    }

    /// The keywords that a URL may have after its question mark.
    ///
    /// None of them changes the state of a session: behind a pooler sessions are shared.
    static let keywords: Set<String> = [
        "application_name", "channel_binding", "connect_timeout", "gssencmode", "host", "hostaddr", "dbname",
        "password", "port",
        "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "target_session_attrs", "user",
    ]
    /// The values that libpq accepts for a keyword; it reports a wrong one only when it connects.
    private static let words: [String: [String]] = [
        "channel_binding": ["disable", "prefer", "require"], "gssencmode": ["disable", "prefer", "require"],
        "sslmode": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
        "target_session_attrs": ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"],
    ]
    /// The fix for a password that cannot be in a URL as it is.
    private static let encoding = "encode @ / : in the password as %40 %2F %3A, or use store.password"
    /// The files with the certificate authorities that the system trusts, on Debian and others.
    private static let systemAuthorities = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"]

    /// The connection parameters for libpq, by keyword; without the password.
    let parameters: [String: String]
    /// The password; nil where the server asks for none.
    public var password: Secret?
    /// The longest time for a statement; after it the statement is given up, and the connection with it.
    public var statementTimeout = Duration.seconds(30)
    /// Whether statements are prepared once for each connection; false behind a pooler that shares connections between
    /// transactions.
    public var preparesStatements = true
    /// The name of this gateway among those that share the database.
    public var nodeName = ProcessInfo.processInfo.hostName
    /// The time without a sign of life after which a node counts as dead, and others take over its claims.
    public var nodeLease = Duration.seconds(15)
    /// Whether other nodes' work is searched for only once a second, without a connection that listens for
    /// notifications.
    public var pollsOnly = false
    /// The most deliveries that may wait; above it new work is refused.
    public var maximumWaiting = 5_000_000
    /// The schema of all tables; it is created when it is missing.
    ///
    /// The name needs no quotes: letters a to z, digits and underscores, 63 at most, beginning with a letter and not
    /// with the server's own prefix (`pg_`). A store with another name does not open.
    public var schema = "chapar"
    /// The most changes of devices that may wait for the planner; above it changes are refused.
    package var maximumUnplannedChanges = 10_000
    /// The longest time that a cheap search for long-due work takes; longer in tests on a busy machine.
    var cheapScan = IncrementalScan.cheap
    /// The number of pages of `waiting` that one statement reads of a full pass, such as a count: 32 MB of pages of the
    /// usual size.
    var pagesPerScan: Int64 = 4_096
    /// The most claims that one transaction gives back, takes over or hands over.
    var claimsPerTransaction: Int64 = 5_000
    /// The count of openings that every connection with these options, or with a copy of them, shares.
    let openings = PostgresOpenings()
    /// The number of rows that one step of a search through the registry reads.
    var rowsPerScan = 1_000

    /// Reads a URL such as `postgres://chapar@db.example.org/chapar`.
    ///
    /// - Parameters:
    ///   - url: The URL as libpq reads it; it may name several hosts.
    ///   - password: The password in place of the URL's.
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
        // A host that is gone sends nothing: without these, waiting for it to accept data would last as long as the
        // system's own defaults.
        found["tcp_user_timeout"] = "30000"
        found["keepalives_idle"] = "30"
        found["keepalives_interval"] = "10"
        found["keepalives_count"] = "3"
        parameters = found
    }

    /// Returns statements with the configured schema in place of `chapar`.
    func inSchema(_ statements: String) -> String {
        schema == "chapar"
            ? statements
            : statements.replacing("chapar.", with: schema + ".")
                .replacing("SCHEMA IF NOT EXISTS chapar", with: "SCHEMA IF NOT EXISTS \(schema)")
    }

    /// The channel of notifications as statements write it; ``inSchema(_:)`` puts in the schema's name.
    ///
    /// The server accepts 63 bytes. With a longer schema name the channel is that name alone, which no other schema's
    /// channel can be: a name without quotes has no dot.
    var channel: String { schema.utf8.count > Self.longestOfChannel ? schema : "chapar.work" }
    private static let longestOfChannel = 63 - ".work".utf8.count

    /// The connecting user, where the URL names one.
    var user: String? { parameters["user"] }

    /// Whether every host is this machine, according to the URL or to libpq's environment variables.
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

    /// Rejects a URL that libpq would misread: an `@` or `/` of the password that libpq takes for the password's end.
    ///
    /// The error repeats none of the text except a keyword after which no `@` follows: any other part may belong to the
    /// password.
    private static func check(_ url: String) throws(Mistake) {
        // Compares scalars, as libpq compares bytes: for Swift an @ and a combining mark are one character, which is no
        // @.
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

    /// Rejects values that libpq would reject only when it connects.
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
            // libpq's message repeats the URL, which may contain a password.
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

    /// The address of the database for logs and messages: user, host, port and database.
    public var description: String {
        let port = parameters["port"].map { ":\($0)" } ?? ""
        let user = parameters["user"].map { "\($0)@" } ?? ""
        let host = parameters["host"] ?? parameters["hostaddr"] ?? "localhost"
        return "postgres://\(user)\(host)\(port)/\(parameters["dbname"] ?? "")"
    }
}
