import Foundation
import ChaparCore
import ChaparGateway
import ChaparQueue
import ChaparStoreSQLite

#if Postgres
    import ChaparStorePostgres
#endif

/// Checks of the machine that a gateway runs on: disk, clock, file descriptors, port.
enum HostChecks {
    static func run(_ configuration: GatewayConfiguration) async -> [Diagnosis] {
        let store =
            configuration.store.kind == .sqlite ? file(configuration.store) : await database(configuration.store)
        return store + [clock(Date()), descriptors(), port(configuration.server)]
            + [certificate(configuration.tls, at: Date())].compactMap(\.self)
            + keys(configuration.apiKeys, at: Date())
    }

    /// Checks the dates on which API keys expire; returns none where no key has one.
    static func keys(_ keys: [GatewayConfiguration.APIKey], at now: Date) -> [Diagnosis] {
        let ending = keys.compactMap { key in key.notAfter.map { (name: key.name, end: $0) } }
        guard !ending.isEmpty else { return [] }
        let fix =
            "Write a later not_after, or give its callers another one (\(GatewayProgram.current.name) keys create); then send the gateway SIGHUP."
        guard keys.contains(where: { $0.notAfter.map { now <= $0 } ?? true }) else {
            let words = "all API keys have ended: every request that needs one is refused with 401"
            return [Diagnosis("API keys", .failure, words, fix: fix)]
        }
        let findings = ending.compactMap { key -> Diagnosis? in
            if let words = ended(key.name, key.end, at: now) {
                return Diagnosis("API keys", .warning, words, fix: fix)
            }
            let days = Int(clamping: key.end.timeIntervalSince(now) / 86400)
            guard days < BackendHealth.credentialWarningDays else { return nil }
            let words = "the key \"\(key.name)\" ends in \(days) days, on \(RFC3339.string(key.end))"
            return Diagnosis("API keys", .warning, words, fix: fix)
        }
        let most = BackendHealth.credentialWarningDays
        return findings.isEmpty ? [Diagnosis("API keys", .ok, "none ends within \(most) days")] : findings
    }

    /// Returns the sentence about an API key that has expired; nil before that, or when it never expires.
    static func ended(_ name: String, _ end: Date?, at now: Date) -> String? {
        guard let end, now > end else { return nil }
        return "the key \"\(name)\" ended on \(RFC3339.string(end)): who has it gets 401"
    }

    /// Checks the dates of the API's TLS certificate; returns nil without one.
    static func certificate(_ tls: GatewayConfiguration.TLS?, at now: Date) -> Diagnosis? {
        guard let end = tls?.notAfter else { return nil }
        let renew = "Renew it, replace server.tls.certificate_file and send the gateway SIGHUP."
        return .certificate("The server's certificate", notAfter: end, at: now, renew: renew)
    }

    /// Checks a PostgreSQL store: whether it can be reached and used, and what keeps it from cleaning up.
    private static func database(_ store: GatewayConfiguration.Store) async -> [Diagnosis] {
        #if Postgres
            let look: PostgresLook
            let options: PostgresOptions
            do {
                options = try PostgresOptions(store)
                look = try await PostgresLook.look(at: options)
            } catch {
                return [Diagnosis("store", .failure, "\(error)", fix: "Mend store.url or the database.")]
            }
            return Self.findings(look, "\(options), PostgreSQL \(look.version)", store.postgres.schema)
        #else
            return [Diagnosis("store", .failure, "this program was built without PostgreSQL")]
        #endif
    }

    #if Postgres
        static func findings(_ look: PostgresLook, _ name: String, _ schema: String) -> [Diagnosis] {
            guard look.isSupported else {
                let fix = "Upgrade the server to \(PostgresLook.oldestVersion) or later."
                return [Diagnosis("store", .failure, "\(name) is too old", fix: fix)]
            }
            guard !look.isNewer else {
                return [
                    Diagnosis(
                        "store",
                        .failure,
                        "\(name): the schema \(schema) is from a newer version of this program",
                        fix: "Start that version or a newer one."
                    )
                ]
            }
            var findings: [Diagnosis] = []
            if look.missingSteps > 0, !look.mayChange {
                findings.append(
                    Diagnosis(
                        "store",
                        .failure,
                        "\(name): \(look.missingSteps) steps of the schema \(schema) are missing, and the user may not make them",
                        fix:
                            "Let the database's owner run CREATE SCHEMA \(schema) AUTHORIZATION followed by the user's name."
                    )
                )
            } else {
                let nodes =
                    look.nodes.isEmpty ? "no gateway uses it now" : "used by \(look.nodes.joined(separator: ", "))"
                let steps =
                    look.missingSteps > 0 ? ", \(look.missingSteps) steps of the schema are applied at the start" : ""
                findings.append(Diagnosis("store", .ok, "\(name): \(nodes)\(steps)"))
            }
            for weakness in look.weaknesses {
                findings.append(
                    Diagnosis(
                        "database",
                        weakness.isFailure ? .failure : .warning,
                        "\(name): \(weakness.finding)",
                        fix: weakness.fix
                    )
                )
            }
            if let snapshot = look.oldestSnapshot, snapshot.age > .seconds(300) {
                findings.append(
                    Diagnosis(
                        "snapshots",
                        .warning,
                        "\(snapshot.holder) has held a snapshot for \(Int(clamping: snapshot.age.inSeconds)) s: dead rows stay until it ends",
                        fix: "End that session, or let it read in shorter transactions."
                    )
                )
            }
            return findings
        }
    #endif

    /// Checks in the store's lock file whether the last gateway ended in order.
    private static func lastRun(_ path: String) -> Diagnosis {
        guard let run = StoreLook.brokenRun(of: path) else {
            return Diagnosis("last run", .ok, "no run of a gateway on \(path) was broken off")
        }
        return Diagnosis(
            "last run",
            .warning,
            "the gateway that ran since \(RFC3339.string(run.since)) (process \(run.process)) did not end in order: killed, "
                + "ended by a fault, or without power",
            fix:
                "See how its log ends, and the service manager's: journalctl -u chapar, docs/Operations.md, \"When a gateway dies\"."
        )
    }

    private static func file(_ store: GatewayConfiguration.Store) -> [Diagnosis] {
        let position = FolderPath.place(of: store.path)
        if FolderPath.isFolder(store.path) == true {
            return [
                Diagnosis(
                    "store",
                    .failure,
                    "store.path: \(store.path) is a folder",
                    fix: "Name a file in it, such as \(store.path)/chapar.db."
                )
            ]
        }
        let target = access(store.path, F_OK) == 0 ? store.path : position
        guard FileModes.takesFiles(position), access(target, W_OK) == 0 else {
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
        var findings = [Diagnosis("store", .ok, "\(store.path) can be written"), lastRun(store.path)]
        if let free = FileSystemSpace.freeBytes(at: position) {
            let words = "\(free >> 20) MiB free, new work is refused below \(store.minimumFreeBytes >> 20) MiB"
            let fix = "Free some space or lower store.min_free_bytes."
            findings.append(
                free < store.minimumFreeBytes
                    ? Diagnosis("disk", .failure, words, fix: fix)
                    : free / 4 < store.minimumFreeBytes
                        ? Diagnosis("disk", .warning, words, fix: fix) : Diagnosis("disk", .ok, words)
            )
        }
        return findings
    }

    /// Checks the clock roughly, since a clock that is hours off makes every signed credential invalid; each backend
    /// compares it with its platform's.
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

    /// Checks whether the API's port is free, by binding it for a moment.
    ///
    /// A running gateway has the port already, so a taken one is no failure.
    private static func port(_ server: GatewayConfiguration.Server) -> Diagnosis {
        guard server.port != 0 else { return Diagnosis("port", .ok, "a free port is taken at start") }
        var hints = addrinfo()
        hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV
        hints.ai_socktype = CLibrary.streamSocket
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
        let socket = Foundation.socket(address.pointee.ai_family, address.pointee.ai_socktype, 0)
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
