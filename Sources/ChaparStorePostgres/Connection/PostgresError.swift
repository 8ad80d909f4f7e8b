internal import ChaparCore

/// A failure between the store and its database.
enum PostgresError: Error, Hashable, CustomStringConvertible {
    /// The database cannot be reached; nothing was changed, since no commit had been sent.
    case unavailable(String)
    /// The server had ended the connection before the call; nothing was sent, so the call is repeated.
    case ended
    /// The connection broke during a commit: it is unknown whether the commit took place.
    case broken(String)
    /// The server refused a statement, which changed nothing.
    case refused(code: String, String)
    /// The server has no disk space or memory left.
    case full(String)
    /// The store, not the server, refuses the call; the transaction is rolled back.
    case declined(StoreError)
    /// A flow has no number yet: the transaction is repeated once it has one.
    case lacksFlow(backend: String, isUrgent: Bool, caller: String)
    /// The connection was closed for good.
    case closed

    /// The server's code for a statement that exceeded its timeout.
    static let timeout = "57014"
    /// The server's code for a session that it ended because it was idle in a transaction.
    private static let idle = "25P03"
    /// The server's code for a change on a standby, or on a read-only server.
    static let readOnly = "25006"
    /// The server's code for missing rights.
    static let rights = "42501"

    /// Classifies a server's error by its five-character code (PostgreSQL's Appendix A).
    init(code: String, message: String) {
        switch code.prefix(2) {
        case "08": self = .unavailable(message)
        case "57" where code != Self.timeout: self = .unavailable(message)  // It is shutting down.
        case "53" where code != "53300": self = .full(message)
        case "53": self = .unavailable(message)  // Too many connections: that passes.
        case "25" where code == Self.idle: self = .unavailable(message)
        case "25" where code == Self.readOnly:
            self = .unavailable("\(message): \(Self.readOnlyRemedy)")
        default: self = .refused(code: code, message)
        }
    }

    /// The fix for a server, or a session, that takes no changes.
    private static let readOnlyRemedy = """
        if the server is a standby, write all hosts into store.url, with target_session_attrs=read-write, so that the one is found that \
        takes changes; otherwise set default_transaction_read_only to off for the role and the database
        """

    /// Returns the fix for a connection that cannot be opened, by libpq's message; nil for an unknown message.
    static func remedy(for message: String) -> String? {
        // The second is OpenSSL's message for an authority of the same name with another key.
        if message.contains("certificate verify failed") || message.contains("SSL error: EVP lib") {
            return """
                no trusted authority vouches for the server's certificate, or its time is over: name the file of the authority \
                with ?sslrootcert= in store.url, or renew the certificate
                """
        }
        if message.contains("does not match host name") {
            return "write a name into store.url that the server's certificate has, or give the server one for this name"
        }
        if message.contains("server does not support SSL") {
            return
                "set ssl = on at the server, with a certificate, or ?sslmode=disable in store.url where the network is trusted"
        }
        if message.contains("password authentication failed") || message.contains("no password supplied") {
            return "give the user of store.url its password, in the URL or in the file or variable that it comes from"
        }
        if message.contains("database"), message.contains("does not exist") {
            return "make it (createdb), or name another one in store.url"
        }
        if message.contains("session is read-only") { return readOnlyRemedy }
        if message.contains("role"), message.contains("does not exist") {
            return "make it (createuser), or name another user in store.url"
        }
        return nil
    }

    /// Whether the same transaction may succeed when it is repeated: it collided with another one.
    var isConflict: Bool {
        guard case .refused(let code, _) = self else { return false }
        return code == "40001" || code == "40P01" || code == "55P03"
    }

    /// Whether no partition exists for a row: the store violates no other check constraint.
    var lacksPartition: Bool {
        guard case .refused(code: "23514", _) = self else { return false }
        return true
    }

    /// Whether the server has no connection left, for this role or for all.
    var lacksConnections: Bool {
        guard case .unavailable(let message) = self else { return false }
        return ["too many clients", "too many connections", "remaining connection slots"].contains(
            where: message.contains
        )
    }

    /// Whether one of several requests may be the cause, so that each is repeated alone: nothing was changed.
    var isOfOneRequest: Bool {
        switch self {
        case .declined: true
        case .refused: !isTimeout
        default: false
        }
    }

    /// Whether the server ended a statement that exceeded its timeout.
    var isTimeout: Bool { if case .refused(Self.timeout, _) = self { true } else { false } }

    /// Whether the database is away or full, which is temporary.
    var isOutage: Bool {
        switch self {
        case .unavailable, .ended, .broken, .full: true
        default: false
        }
    }

    /// The error for a caller that opens a store, with all details.
    var openingError: StoreError {
        if case .unavailable = self { .full(reason: description, retryAfter: .seconds(5)) } else { storeError }
    }

    /// The error for callers of a store.
    var storeError: StoreError {
        switch self {
        case .declined(let error): error
        case .closed: .closed
        case .full: .full(reason: description, retryAfter: .seconds(30))
        // The address of the database belongs in the log, not in answers of the API.
        case .unavailable, .ended: .full(reason: "the database cannot be reached", retryAfter: .seconds(5))
        case .broken, .refused, .lacksFlow: .failed(description)
        }
    }

    /// The error as a sentence.
    var description: String {
        switch self {
        case .unavailable(let message): "the database cannot be reached: \(message)"
        case .ended: "the database had ended the connection"
        case .broken(let message): "the connection to the database broke: \(message)"
        case .refused(Self.rights, let message):
            "the database refused a statement: \(message): let the schema and its tables belong to the user of store.url"
        case .refused(let code, let message): "the database refused a statement: \(message) (\(code))"
        case .full(let message): "the database has no room, free some on its disk: \(message)"
        case .declined(let error): error.description
        case .lacksFlow(let backend, _, let caller): "the flow of \(caller) at \(backend) has no number"
        case .closed: StoreError.closed.description
        }
    }
}
