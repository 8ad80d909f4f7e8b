internal import Foundation
internal import Logging
internal import ChaparCore
internal import ChaparQueue

/// The registration of every device at backends that are new, or whose rules of registration have changed: page by
/// page, in the background.
///
/// Its progress is kept across restarts. The progress of a backend that is removed from the configuration is deleted,
/// so that all devices are registered again when the backend returns.
actor Backfill {
    /// The progress of one backend's backfill.
    private struct Progress {
        var stamp: String
        var after: DeviceCursor?
        var isDone = false
        /// Whether registrations were lost meanwhile, so that the next start or reload begins anew.
        var isIncomplete = false
    }

    private static let key = "operations.introduced"
    private static let page = 200
    /// The number of waiting entries at which a backend gets no more.
    private static let fullBackend = 2_000
    private static let rest = Duration.seconds(1)

    private let store: any OutboxStore & DeviceStore
    private let state: any StateStore
    private let time: any TimeSource
    private let logger: Logger
    private var progress: [String: Progress]?

    init(
        store: any OutboxStore & DeviceStore,
        state: any StateStore,
        time: any TimeSource,
        logger: Logger
    ) {
        self.store = store
        self.state = state
        self.time = time
        self.logger = logger
    }

    /// Forgets the backends that are no longer configured.
    func keep(_ backends: Set<String>) async {
        guard await load(), let known = progress, known.keys.contains(where: { !backends.contains($0) }) else { return }
        progress = known.filter { backends.contains($0.key) }
        await save()
    }

    /// Marks a backend as lacking devices: it gets all of them after the next start or reload.
    ///
    /// Call it for a backend whose credentials were refused: registrations are lost until the credentials are
    /// corrected, which needs a reload.
    func markIncomplete(_ backend: String) async {
        guard await load(), let own = progress?[backend], !own.isIncomplete else { return }
        progress?[backend]?.isIncomplete = true
        await save()
    }

    /// Registers every device at a backend, unless that is done; returns then or when the task is cancelled.
    func run(for backend: String, stamp: String, _ deviceSync: DeviceSync) async {
        guard await load() else { return }
        if progress?[backend].map({ $0.stamp != stamp || $0.isIncomplete }) ?? true {
            progress?[backend] = Progress(stamp: stamp)
            await save()
            logger.notice("registering every device with a backend", metadata: ["backend": "\(backend)"])
        }
        guard let app = deviceSync.app(of: backend) else { return }
        while !Task.isCancelled, let own = progress?[backend], own.stamp == stamp, !own.isDone {
            do throws(StoreError) {
                guard try await store.outboxDepths()[backend]?.waiting ?? 0 < Self.fullBackend,
                    try await store.unplannedCount(ofDevice: nil) < Self.fullBackend
                else {
                    try? await time.sleep(for: Self.rest)
                    continue
                }
                let page = try await store.list(DeviceQuery(app: app), after: own.after, limit: Self.page)
                _ = try await store.backfill(page.devices.map(\.id), to: backend, at: time.now)
                guard progress?[backend]?.stamp == stamp else { return }
                progress?[backend]?.after = page.next
                progress?[backend]?.isDone = page.next == nil
                await save()
            } catch {
                if error == .closed { return }
                try? await time.sleep(for: Self.rest)
            }
        }
    }

    /// Reads the stored progress; false when it cannot be read: the task is cancelled, the store closed, or the value
    /// damaged.
    private func load() async -> Bool {
        while progress == nil {
            do throws(StoreError) {
                let stored = try await state.loadState(Self.key)
                if progress == nil { progress = Self.read(stored) }
            } catch {
                // The gateway's shutdown waits for this.
                guard !error.isLasting, (try? await time.sleep(for: Self.rest)) != nil else {
                    if error != .closed {
                        logger.unlessCancelled?.warning(
                            "how far introductions came cannot be read",
                            metadata: ["error": "\(error)"]
                        )
                    }
                    return false
                }
            }
        }
        return true
    }

    /// Saves the progress; if that fails, a page is sent twice after a restart, which does no harm.
    private func save() async {
        var object = JSONObject()
        for (backend, own) in (progress ?? [:]).sorted(by: { $0.key < $1.key }) {
            object[backend] = [
                "stamp": .string(own.stamp), "after": own.after.map { .integer($0.rawValue) } ?? .null,
                "done": .bool(own.isDone), "doubted": .bool(own.isIncomplete),
            ]
        }
        do throws(StoreError) {
            try await state.saveState(Self.key, JSONValue.object(object).bytes)
        } catch {
            logger.unlessCancelled?.warning(
                "how far introductions came was not kept",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private static func read(_ stored: [UInt8]?) -> [String: Progress] {
        guard let stored, case .object(let object)? = try? JSONValue(parsing: stored) else { return [:] }
        return object.reduce(into: [:]) { progress, member in
            guard let stamp = member.value["stamp"]?.stringValue else { return }
            progress[member.name] = Progress(
                stamp: stamp,
                after: member.value["after"]?.integerValue.map { DeviceCursor(rawValue: $0) },
                isDone: member.value["done"]?.boolValue ?? false,
                isIncomplete: member.value["doubted"]?.boolValue ?? false
            )
        }
    }
}
