import Foundation
import GRDB
package import ChaparCore
package import ChaparQueue

/// The steps that a file's tables lack.
package enum StoreMigration {
    /// Returns the steps that an opening would apply; changes nothing, and a gateway may use the file meanwhile.
    ///
    /// - Throws: `StoreError.newer` when a newer version has changed the file, `StoreError.failed` when it cannot be
    ///   read.
    package static func plan(_ path: String) throws(StoreError) -> [MigrationStep] {
        let names = Schema.migrator.migrations
        guard FileManager.default.fileExists(atPath: path) else { return names.map { MigrationStep(name: $0) } }
        do {
            try Schema.refuseNewer(path)
            var configuration = Configuration()
            configuration.readonly = true
            configuration.busyMode = .timeout(5)
            let file = try DatabaseQueue(path: path, configuration: configuration)
            defer { try? file.close() }
            let applied = try file.read { try Schema.migrator.appliedIdentifiers($0) }
            return names.filter { !applied.contains($0) }.map { MigrationStep(name: $0) }
        } catch {
            throw StoreError(opening: path, error)
        }
    }

    /// Applies the missing steps, as an opening does, and reports the progress; no gateway may use the file.
    package static func apply(
        _ options: SQLiteStoreOptions,
        report: (String) -> Void = { _ in }
    ) throws(StoreError) {
        let ownership = try FileOwnership(of: options.path)
        defer { ownership.release() }
        try FileOwnership.makePrivate(options.path)
        let (pool, _) = try OpenedStore.open(options, report: report)
        try? pool.foldLog()
        try? pool.close()
    }
}
