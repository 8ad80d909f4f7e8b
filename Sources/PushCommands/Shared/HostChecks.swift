import Foundation
import PushCore
import PushGateway

/// Looks at the machine a gateway is to run on: disk, clock, file descriptors, port.
enum HostChecks {
    static func run(_ configuration: GatewayConfiguration) -> [Diagnosis] {
        store(configuration.store) + [clock(Date()), descriptors(), port(configuration.server)]
            + certificate(configuration.tls, at: Date())
    }

    /// The certificate with which the API speaks TLS.
    private static func certificate(_ tls: GatewayConfiguration.TLS?, at now: Date) -> [Diagnosis] {
        guard let end = tls?.notAfter else { return [] }
        let renew = "Renew it, replace server.tls.certificate_file and send the gateway SIGHUP."
        return [.certificate("The server's certificate", notAfter: end, at: now, renew: renew)]
    }

    private static func store(_ store: GatewayConfiguration.Store) -> [Diagnosis] {
        let folder = (store.path as NSString).deletingLastPathComponent
        let position = folder.isEmpty ? "." : folder
        let target = access(store.path, F_OK) == 0 ? store.path : position
        guard access(position, W_OK | X_OK) == 0, access(target, W_OK) == 0 else {
            let reason = String(cString: strerror(errno))
            return [
                Diagnosis(
                    "store",
                    .failure,
                    "cannot write \(store.path): \(reason)",
                    fix: "Make the folder \(position) and let the user that runs the gateway write in it."
                )
            ]
        }
        var findings = [Diagnosis("store", .ok, "\(store.path) can be written")]
        var usage = statvfs()
        if statvfs(position, &usage) == 0 {
            let free = Int64(usage.f_bavail) * Int64(usage.f_frsize)
            let words = "\(free >> 20) MiB free, new work is refused below \(store.minimumFreeBytes >> 20) MiB"
            let fix = "Free some space or lower store.min_free_bytes."
            findings.append(
                free < store.minimumFreeBytes
                    ? Diagnosis("disk", .failure, words, fix: fix)
                    : free < 4 * store.minimumFreeBytes
                        ? Diagnosis("disk", .warning, words, fix: fix) : Diagnosis("disk", .ok, words)
            )
        }
        return findings
    }

    /// A clock that is hours off makes every signed credential invalid; each backend compares it with its platform's own.
    private static func clock(_ now: Date) -> Diagnosis {
        guard now.timeIntervalSince1970 > 1_767_225_600 else {  // 2026: this program is not older than that.
            return Diagnosis(
                "clock",
                .failure,
                "the clock says \(RFC3339.string(now))",
                fix: "Set it: timedatectl set-ntp true"
            )
        }
        return Diagnosis("clock", .ok, RFC3339.string(now))
    }

    private static func descriptors() -> Diagnosis {
        guard let most = OpenFiles.most else {
            return Diagnosis("descriptors", .warning, "the limit cannot be read")
        }
        let words = "\(most) open files allowed"
        return most < 4096
            ? Diagnosis("descriptors", .warning, words, fix: "Raise it: ulimit -Hn 65536, or LimitNOFILE= in the unit.")
            : Diagnosis("descriptors", .ok, words)
    }

    /// Whether the API's port is free, by binding it for a moment.
    ///
    /// A gateway that runs already has it, so it is no failure.
    private static func port(_ server: GatewayConfiguration.Server) -> Diagnosis {
        guard server.port != 0 else { return Diagnosis("port", .ok, "a free port is taken at start") }
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(server.host, String(server.port), &hints, &found) == 0, let address = found else {
            return Diagnosis(
                "port",
                .failure,
                "\(server.host) is not an address of this machine",
                fix: "Mend server.host."
            )
        }
        defer { freeaddrinfo(found) }
        let socket = Glibc.socket(address.pointee.ai_family, address.pointee.ai_socktype, 0)
        defer { close(socket) }
        var on: Int32 = 1
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(truncatingIfNeeded: MemoryLayout<Int32>.size))
        guard bind(socket, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0 else {
            let reason = String(cString: strerror(errno))
            return Diagnosis(
                "port",
                .warning,
                "\(server.host):\(server.port) cannot be had: \(reason)",
                fix: "Fine when the gateway runs already; else stop what has it or change server.port."
            )
        }
        return Diagnosis("port", .ok, "\(server.host):\(server.port) is free")
    }
}
