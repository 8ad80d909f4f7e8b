import Foundation
import GRDB
import ChaparCore
import ChaparQueue
import ChaparStoreContract
import ChaparTesting

@testable import ChaparStoreSQLite

/// A store's file as a killed gateway leaves it, with rows in every table, to be damaged on purpose.
struct DamagedStore: Sendable {
    /// The undamaged file, and the questions to it.
    let whole: Data
    let filling: StoreFilling

    /// Makes the whole file once.
    static func make() async throws -> DamagedStore {
        try await TemporaryFolder.use { folder in
            var filling = StoreFilling()
            filling.patience = .zero
            let store = try SQLiteStore(SQLiteStoreOptions(path: folder + "/a.db"))
            try await filling.fill(store)
            let killed = folder + "/b.db"
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: folder + "/a.db" + suffix, toPath: killed + suffix)
            }
            await store.close()
            let file = try DatabaseQueue(path: killed)
            try await file.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = DELETE") }
            try file.close()
            return DamagedStore(whole: try Data(contentsOf: URL(filePath: killed)), filling: filling)
        }
    }

    /// Writes the undamaged file into a folder of its own.
    func use<Value>(_ body: (_ path: String) async throws -> Value) async throws -> Value {
        try await TemporaryFolder.use { folder in
            let path = folder + "/store.db"
            try whole.write(to: URL(filePath: path))
            return try await body(path)
        }
    }

    /// The errors that a file caused.
    struct Findings {
        /// Why it could not be opened; nil when it could.
        var opening: StoreError?
        /// The errors of questions and changes.
        var answers: [StoreError] = []
        /// Why no backup was made; nil when one was.
        var backup: StoreFileError?
        /// Why it was not restored; nil when it was.
        var restoring: (any Error)?
        /// Why it was not copied; nil when it was.
        var copying: (any Error)?
    }

    /// Backs up, restores, copies and opens a file, as the program does.
    func findings(in path: String) async throws -> Findings {
        let folder = (path as NSString).deletingLastPathComponent
        var findings = Findings()
        do throws(StoreFileError) {
            _ = try StoreBackup(of: path, to: folder + "/backup.db").write()
        } catch {
            findings.backup = error
        }
        do {
            _ = try StoreRestore(of: path, to: folder + "/restored.db").run(now: Date())
        } catch {
            findings.restoring = error
        }
        try FileManager.default.copyItem(atPath: path, toPath: folder + "/source.db")
        findings.copying = await copying(folder + "/source.db", to: folder + "/target.db")
        let store: SQLiteStore
        do throws(StoreError) {
            store = try SQLiteStore(SQLiteStoreOptions(path: path), logger: RecordedLog().logger)
        } catch {
            findings.opening = error
            return findings
        }
        findings.answers = await answers(of: store)
        await store.close()
        return findings
    }

    private func copying(_ path: String, to target: String) async -> (any Error)? {
        do {
            let source = try SQLiteCopyStore(SQLiteStoreOptions(path: path), isTarget: false)
            let target = try SQLiteCopyStore(SQLiteStoreOptions(path: target), isTarget: true)
            let result = await Result { try await StoreCopy(from: source, to: target).run() }
            await source.close()
            await target.close()
            if case .failure(let error) = result { return error }
            return nil
        } catch {
            return error
        }
    }

    /// Makes each question and change once; a refused one stops no other.
    private func answers(of store: SQLiteStore) async -> [StoreError] {
        var errors: [StoreError] = []
        func ask(_ question: () async throws -> Void) async {
            do { try await question() } catch { if let error = error as? StoreError { errors.append(error) } }
        }
        for question in filling.questions(store) { await ask { _ = try await question() } }
        let later = Date() + 400 * 86_400
        await ask { _ = try await store.claimExpired(limit: 100) }
        await ask { _ = try await store.stateNames(beginningWith: "") }
        await ask { _ = try await store.quarantined(of: "apns", after: nil, limit: 10) }
        await ask { _ = try await store.devices(ofUsers: ["u0", "u1"], limit: 10) }
        await ask { _ = try await store.unplannedCount(ofDevice: nil) }
        for backend in ["altcraft", "chabok"] {
            await ask {
                _ = try await store.claimEntries(of: backend, limit: 5, lease: .seconds(60), wait: .zero)
            }
        }
        for id in filling.notifications.prefix(6) { await ask { _ = try await store.cancel(id) { _, _ in [1] } } }
        await ask { _ = try await store.put([Device(id: "d1", user: "u1", createdAt: Date())], outbox: Date()) }
        await ask { _ = try await store.invalidate(quarantinedOf: "apns", limit: 10, outbox: nil) }
        await ask {
            try await store.eraseDeliveries(
                of: UserTraces(user: "u1"),
                event: { _, _ in [1] },
                state: { _ in ("erased", [1]) },
                progress: { (_) throws(StoreError) in }
            )
        }
        await ask { _ = try await store.redactEvents { number, _ in number == 1 ? [2] : nil } }
        await ask { _ = try await store.purge(Retention(notifications: later, events: later)) }
        await ask { _ = await store.health() }
        return errors
    }
}

extension Result where Failure == any Error {
    fileprivate init(_ body: () async throws -> Success) async {
        do { self = .success(try await body()) } catch { self = .failure(error) }
    }
}
