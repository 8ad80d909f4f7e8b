import Foundation

/// The programs that listen on a port of this machine, as the kernel lists them (proc(5), `/proc/net/tcp`).
enum Listeners {
    /// The state of a listening socket (`TCP_LISTEN`).
    private static let listening = "0A"

    /// Returns whether a port has listeners and all of them run as one user; false where the kernel does not say.
    ///
    /// It looks at all addresses of the port: it is unknown which of them a name leads to.
    static func areAll(ownedBy user: uid_t, onPort port: Int) -> Bool {
        let owners = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap { file in
            (try? String(contentsOfFile: file, encoding: .ascii)).map { Self.owners(in: $0, port: port) } ?? []
        }
        return !owners.isEmpty && owners.allSatisfy { $0 == user }
    }

    /// Returns the users of the sockets in a table that listen on a port.
    ///
    /// The columns of a line: number, local address and port in hexadecimal digits, remote ones, state, two queues,
    /// timer, retransmissions, user.
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
