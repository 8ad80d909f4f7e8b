import Foundation
import Logging
import ChaparCore
import Synchronization

/// Holds the lists of all apps: reads the documents, reads them again when they change, adds what was posted.
///
/// When a document turns bad, its last good list stays, and the problem is reported once. Posted versions are kept in
/// the gateway's store and added to those of the document.
actor NotesLibrary {
    /// A list with what it was made of.
    struct Shelf: Sendable {
        var notes: ReleaseNotes
        /// The remarks about the list, and the problems of the newest document.
        var problems: [ReleaseNotesProblem]
        /// When the list became what it is.
        var changedAt: Date
    }

    private struct Key: Hashable {
        var app: String
        var language: String
    }

    private struct Source {
        /// The bytes that were looked at last; nil when they could not be read.
        var bytes: [UInt8]?
        var read: ReleaseNotes?
        var problems: [ReleaseNotesProblem] = []
        var added: [ReleaseNotes.Entry] = []
        var changedAt: Date
        var lookedAt: Date
    }

    /// How long a document counts as unchanged.
    private static let freshness: TimeInterval = 2

    private let apps: [String: NotesApp]
    private let time: any TimeSource
    private let state: (any StateStore)?
    private let logger: Logger
    private var sources: [Key: Source] = [:]

    init(_ apps: [String: NotesApp], _ context: BackendContext) {
        self.apps = apps
        time = context.time
        state = context.state
        logger = context.logger
    }

    /// Returns the list of an app's language; nil when no document was ever good and nothing was posted.
    func shelf(_ app: String, _ language: String) async throws(PushError) -> Shelf? {
        let source = try await source(Key(app: app, language: language), mustLook: false)
        guard source.read != nil || !source.added.isEmpty else { return nil }
        let numbers = Set(source.added.map(\.number))
        let kept = (source.read?.entries ?? []).filter { !numbers.contains($0.number) }
        let notes = ReleaseNotes(kept + source.added)
        let current = apps[app]?.current ?? ReleaseVersion(major: 0)
        return Shelf(
            notes: notes,
            problems: source.problems + notes.problems(for: current),
            changedAt: source.changedAt
        )
    }

    /// Reads all documents of an app again; returns the problems of each, by language.
    func reload(_ app: String) async throws(PushError) -> [String: [ReleaseNotesProblem]] {
        var problems: [String: [ReleaseNotesProblem]] = [:]
        for language in apps[app]?.languages ?? [] {
            problems[language] = try await source(Key(app: app, language: language), mustLook: true).problems
        }
        return problems
    }

    /// Adds or replaces a version; returns whether it is new.
    func add(_ entry: ReleaseNotes.Entry, to app: String, _ language: String) async throws(PushError) -> Bool {
        let key = Key(app: app, language: language)
        var source = try await source(key, mustLook: false)
        let isNew = !((source.read?.entries ?? []) + source.added).contains { $0.number == entry.number }
        source.added.removeAll { $0.number == entry.number }
        source.added.append(entry)
        source.changedAt = time.now
        do throws(StoreError) {
            try await state?.saveState(Self.name(key), ReleaseNotes(source.added).json(.documented).bytes)
        } catch {
            throw PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
        }
        // Another call may have added something meanwhile: only the one entry is put into what is there now.
        var now = sources[key] ?? source
        now.added.removeAll { $0.number == entry.number }
        now.added.append(entry)
        now.changedAt = source.changedAt
        sources[key] = now
        return isNew
    }

    private static func name(_ key: Key) -> String { "release_notes/\(key.app)/added/\(key.language)" }

    private func source(_ key: Key, mustLook: Bool) async throws(PushError) -> Source {
        var source: Source
        if let known = sources[key] {
            source = known
        } else {
            source = Source(changedAt: time.now, lookedAt: .distantPast)
            do throws(StoreError) {
                if let bytes = try await state?.loadState(Self.name(key)) {
                    source.added =
                        (try? ReleaseNotesReader.read(bytes, name: "posted", mode: .lenient).notes.entries) ?? []
                }
            } catch {
                throw PushError(.unavailable, "the store failed: \(error)", reason: "store_failed")
            }
            if let meanwhile = sources[key] { source = meanwhile }
        }
        let now = time.now
        if mustLook || now.timeIntervalSince(source.lookedAt) >= Self.freshness {
            look(at: key, &source, now)
            sources[key] = source
        }
        return source
    }

    private func look(at key: Key, _ source: inout Source, _ now: Date) {
        source.lookedAt = now
        guard let app = apps[key.app], let file = app.sources[key.language] else { return }
        let bytes: [UInt8]?
        var reason = ""
        do {
            bytes = try file.contents()
        } catch {
            bytes = nil
            reason = "\(error)"
        }
        guard source.bytes != bytes || source.read == nil && source.problems.isEmpty else { return }
        source.bytes = bytes
        guard let bytes else {
            source.problems = [ReleaseNotesProblem(.missing, "file \"\(file.name)\" not found: \(reason)")]
            return log(source.problems, key)
        }
        do throws(ReleaseNotesReader.Failure) {
            let reading = try ReleaseNotesReader.read(bytes, name: file.name, mode: app.mode)
            source.problems = reading.warnings
            source.read = reading.notes
            source.changedAt = now
        } catch {
            source.problems = error.problems
        }
        log(source.problems + (source.read?.problems(for: app.current) ?? []), key)
    }

    private func log(_ problems: [ReleaseNotesProblem], _ key: Key) {
        for problem in problems {
            logger.warning(
                "release notes",
                metadata: ["app": "\(key.app)", "language": "\(key.language)", "problem": "\(problem)"]
            )
        }
    }
}
