import Foundation
import ChaparCore
import ChaparGateway
import ChaparStoreSQLite

/// Checks of who else can read or change the files of a gateway: configuration, keys, database, backups.
struct FileChecks {
    /// The configuration file.
    let path: String
    let loaded: LoadedConfiguration
    /// The folder of backups, when the operator names it.
    let backups: String?

    func run() -> [Diagnosis] {
        [configuration()] + keys() + firstKey() + database() + backupFolder() + [encryption()]
    }

    /// Checks for secrets that stand in the file itself, without `${…}`.
    private func configuration() -> Diagnosis {
        let secrets = loaded.settings.filter { $0.value == nil && $0.origin.via == nil && !$0.origin.file.isEmpty }
        guard let mode = FileModes.mode(of: path) else { return Diagnosis("configuration", .ok, "\(path) is private") }
        if mode & 0o022 != 0 {
            return Diagnosis("configuration", .warning, "others can change \(path)", fix: "chmod go-w \(path)")
        }
        if let first = secrets.first, mode & 0o077 != 0 {
            let more = secrets.count > 1 ? " and \(secrets.count - 1) more" : ""
            return Diagnosis(
                "configuration",
                .warning,
                "others can read \(path), which holds secrets (\(first.path)\(more))",
                fix: "chmod 600 \(path), or write them as ${NAME} or ${file:/path}."
            )
        }
        return Diagnosis("configuration", .ok, "\(path) shows no secret to other users")
    }

    /// Checks the files with keys and credentials that the configuration names.
    private func keys() -> [Diagnosis] {
        let folder = FolderPath.folder(of: path)
        var files: [String: String] = [:]
        for setting in loaded.settings {
            if let value = setting.value, setting.origin.via == nil, Self.isKeyFile(setting.path) {
                files[Self.resolve(value, in: folder)] = setting.path
            }
            for part in (setting.origin.via ?? "").components(separatedBy: ", ") where part.hasPrefix("file ") {
                files[Self.resolve(String(part.dropFirst(5)), in: folder)] = setting.path
            }
        }
        let open = files.sorted { $0.key < $1.key }.filter {
            FileModes.openness(of: $0.key, beside: path) != 0
        }
        guard open.isEmpty else {
            return open.map { file, key in
                Diagnosis("key files", .warning, "others can read or change \(file) (\(key))", fix: "chmod 600 \(file)")
            }
        }
        return files.isEmpty ? [] : [Diagnosis("key files", .ok, "\(files.count) cannot be read by other users")]
    }

    private static func isKeyFile(_ path: String) -> Bool {
        let name = path.split(separator: ".").last.map(String.init) ?? path
        if path.hasSuffix(".auth.store.path") || name == "key_file" { return true }
        return path.hasPrefix("backends.") && name.hasSuffix("_file") && name != "ca_file"
    }

    /// Checks the file of the first API key, which is in force while the configuration has none.
    private func firstKey() -> [Diagnosis] {
        guard FirstKey.isNeeded(loaded.configuration) else { return [] }
        if let refusal = FirstKey.refusal(loaded.configuration, path) {
            return [Diagnosis("first key", .failure, refusal.description)]
        }
        let file = FirstKey.path(of: loaded.configuration.store)
        do throws(CommandFailure) {
            let words = try FirstKey.read(file) == nil ? "is made at the first start" : "is for its owner only"
            return [Diagnosis("first key", .ok, "\(file) \(words)")]
        } catch {
            return [Diagnosis("first key", .failure, error.description)]
        }
    }

    /// Checks the database with its log, and the files that restorations left beside it.
    private func database() -> [Diagnosis] {
        guard loaded.configuration.store.kind == .sqlite else { return [] }
        let path = loaded.configuration.store.path
        var findings = FileModes.folderWarning(of: path).map { [Diagnosis("database", .warning, $0)] } ?? []
        let name = (path as NSString).lastPathComponent
        let folder = FolderPath.folder(of: path)
        let files = (try? FileManager.default.contentsOfDirectory(atPath: FolderPath.place(of: path))) ?? []
        for file in files.sorted() where file == name || file.hasPrefix(name + "-") || file.hasPrefix(name + ".") {
            let full = folder.isEmpty ? file : folder + "/" + file
            guard let mode = FileModes.mode(of: full), mode & S_IFMT == S_IFREG, mode & 0o077 != 0 else { continue }
            findings.append(
                Diagnosis("database", .warning, "others can read or change \(full)", fix: "chmod 600 \(full)")
            )
        }
        return findings.isEmpty ? [Diagnosis("database", .ok, "\(path) is for its owner only")] : findings
    }

    private func backupFolder() -> [Diagnosis] {
        guard let backups else { return [] }
        guard let mode = FileModes.mode(of: backups), mode & S_IFMT == S_IFDIR,
            let files = try? FileManager.default.contentsOfDirectory(atPath: backups)
        else { return [Diagnosis("backups", .failure, "\(backups) is no folder that can be read")] }
        var findings: [Diagnosis] = []
        if let warning = FileModes.folderWarning(of: backups + "/.") {
            findings.append(Diagnosis("backups", .warning, warning))
        }
        let open = files.filter { file in
            FileModes.mode(of: backups + "/" + file).map { $0 & S_IFMT == S_IFREG && $0 & 0o077 != 0 } ?? false
        }
        .sorted()
        if let first = open.first {
            let more = open.count > 1 ? " and \(open.count - 1) more" : ""
            findings.append(
                Diagnosis(
                    "backups",
                    .warning,
                    "others can read or change \(backups)/\(first)\(more)",
                    fix: "chmod 600 \(backups)/*"
                )
            )
        }
        return findings.isEmpty ? [Diagnosis("backups", .ok, "\(backups) is for its owner only")] : findings
    }

    /// Checks whether credentials in the store are encrypted, and whether their key is there.
    private func encryption() -> Diagnosis {
        let store = loaded.configuration.store
        let keys: SealingKeys
        do {
            keys = try store.encryption.keys()
        } catch {
            return Diagnosis(
                "encryption",
                .failure,
                "\(error)",
                fix: "Mend store.encryption: the gateway does not start."
            )
        }
        if store.kind == .sqlite, FileModes.mode(of: store.path) != nil {
            do throws(StoreFileError) {
                let stored = try StoreLook.values(in: store.path, beginningWith: SealedState.prefix)
                for (name, value) in stored.sorted(by: { $0.key < $1.key }) {
                    let own = String(name.dropFirst(SealedState.prefix.count))
                    if let problem = keys.problem(with: value, name: own) {
                        return Diagnosis("encryption", .failure, problem)
                    }
                }
            } catch {
                return Diagnosis("encryption", .warning, "\(error)")
            }
        }
        if let current = keys.current {
            return Diagnosis("encryption", .ok, "credentials in the store are encrypted with the key \(current.id)")
        }
        let words =
            store.kind == .sqlite
            ? "no key: credentials in the store are protected by the mode of its file only"
            : "no key: every reader of the database can read the credentials in it"
        let isNeeded = loaded.settings.contains { $0.path.hasSuffix(".auth.kind") && $0.value == "oauth2_refresh" }
        return isNeeded
            ? Diagnosis(
                "encryption",
                .warning,
                words,
                fix: "Set store.encryption: see docs/Operations.md, \"Encrypted credentials\"."
            )
            : Diagnosis("encryption", .ok, words)
    }

    private static func resolve(_ path: String, in folder: String) -> String {
        path.hasPrefix("/") || folder.isEmpty ? path : folder + "/" + path
    }
}
