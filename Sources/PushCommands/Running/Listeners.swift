import Foundation

/// The programs that listen on a port of this machine, as the kernel lists them (proc(5), `/proc/net/tcp`).
enum Listeners {
    /// The state of a socket that listens (`TCP_LISTEN`).
    private static let listening = "0A"

    /// Whether somebody listens on a port, and all who do are a user's; false where the kernel does not say.
    ///
    /// In every address of the port: which of them a name leads to is not known here.
    static func areAll(ownedBy user: uid_t, onPort port: Int) -> Bool {
        let owners = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap { file in
            (try? String(contentsOfFile: file, encoding: .ascii)).map { Self.owners(in: $0, port: port) } ?? []
        }
        return !owners.isEmpty && owners.allSatisfy { $0 == user }
    }

    /// The users of the sockets in a table that listen on a port.
    ///
    /// A line has its number, the local address and port in hexadecimal digits, the remote ones, the state, two queues,
    /// a timer, retransmissions, and the user.
    static func owners(in table: String, port: Int) -> [uid_t] {
        table.split(separator: "\n").dropFirst().compactMap { line in
            let fields = line.split(separator: " ")
            guard fields.count > 7, fields[3] == listening, let digits = fields[1].split(separator: ":").last,
                Int(digits, radix: 16) == port
            else { return nil }
            return uid_t(fields[7])
        }
    }
}
