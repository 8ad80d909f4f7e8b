import Foundation

/// The programs that listen on a port of this machine, as the kernel lists them (proc(5), `/proc/net/tcp`).
enum Listeners {
    /// The state of a listening socket (`TCP_LISTEN`).
    private static let listening = "0A"
    /// The most bytes of a table that are read: 400,000 sockets, of which the listening ones come first.
    private static let limit = 64 << 20

    /// Returns whether a port has listeners and all of them run as one user; false where the kernel does not say.
    ///
    /// It looks at all addresses of the port: it is unknown which of them a name leads to.
    static func areAll(ownedBy user: uid_t, onPort port: Int) -> Bool {
        let owners = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap { Self.owners(in: text($0), port: port) }
        return !owners.isEmpty && owners.allSatisfy { $0 == user }
    }

    /// Returns the text of a table, empty where it cannot be read.
    ///
    /// `String(contentsOfFile:)` ends at the first short read, which is a page (27 sockets) in these files.
    private static func text(_ path: String) -> String {
        guard let handle = FileHandle(forReadingAtPath: path) else { return "" }
        defer { try? handle.close() }
        return String(decoding: (try? handle.read(upToCount: limit)) ?? Data(), as: UTF8.self)
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
