public import Foundation
public import Logging
public import PushCore
internal import Synchronization

/// Runs a lane for each backend, ends what has expired, and forgets what is old.
///
/// A reload replaces every lane: the old ones take nothing more, end what they have, and go.
public final class Dispatcher: LaneObserver, Sendable {
    private enum Command: Sendable {
        case install(GatewaySnapshot)
        case stop
    }

    private struct Lanes {
        var current: [Lane] = []
        var leaving: [Lane] = []
    }

    private let store: any NotificationStore
    private let time: any TimeSource
    private let observer: any DispatchObserver
    private let logger: Logger
    private let decode: @Sendable ([UInt8]) throws -> PushNotification
    private let recorder: Recorder
    private let devices: (any DeviceStore)?
    private let operations: (any OperationStore)?
    private let desk: InvalidationDesk
    private let lanesGuarded = Mutex(Lanes())
    private let commands: AsyncStream<Command>
    private let commander: AsyncStream<Command>.Continuation

    /// Makes a dispatcher; nothing happens before ``run(_:)``.
    ///
    /// `devices` is the registry, without which no delivery to a device finds its tokens; `operations` is what platforms are
    /// still to be told about devices; `telling` gives who is to be told
    /// when a device loses a token; `decode` turns stored content
    /// back into a notification.
    public init(
        store: any NotificationStore,
        devices: (any DeviceStore)? = nil,
        operations: (any OperationStore)? = nil,
        time: any TimeSource,
        observer: any DispatchObserver = SilentObserver(),
        logger: Logger,
        outbox: @escaping @Sendable () -> Date? = { nil },
        decode: @escaping @Sendable ([UInt8]) throws -> PushNotification
    ) {
        self.store = store
        self.time = time
        self.observer = observer
        self.logger = logger
        self.decode = decode
        self.devices = devices
        self.operations = operations
        let recorder = Recorder(store: store, time: time, logger: logger)
        self.recorder = recorder
        desk = InvalidationDesk(
            devices: devices,
            state: store,
            time: time,
            observer: observer,
            logger: logger,
            outbox: outbox
        ) {
            recorder.append([], events: $0)
        }
        (commands, commander) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(16))
    }

    /// How every lane is doing.
    public var lanes: [LaneStatus] { lanesGuarded.withLock { $0.current }.map(\.status) }

    /// Where an operator settles held invalidations.
    public var invalidations: InvalidationDesk? { desk }

    /// Works until ``stop()`` or cancellation, then drains: what is under way gets `queue.drain` to end.
    ///
    /// After the stop a backend is shut down once its own sends have ended and `beforeClosing` has returned: other work may
    /// use the backends until then.
    public func run(
        _ snapshot: GatewaySnapshot,
        beforeClosing: @escaping @Sendable () async -> Void = {}
    ) async throws(StoreError) {
        let instance = try await instanceNumber()
        commander.yield(.install(snapshot))
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [recorder] in await recorder.run() }
            group.addTask { [desk, recorder] in
                await desk.run()
                recorder.finish()  // The desk's last events go through it.
            }
            await withTaskCancellationHandler {
                await self.runLanes(instance, beforeClosing)
            } onCancel: {
                commander.yield(.stop)
            }
            desk.finish()
            await group.waitForAll()
        }
    }

    /// Puts other backends in the place of those that run.
    public func install(_ snapshot: GatewaySnapshot) { commander.yield(.install(snapshot)) }

    /// Claims nothing more and lets ``run(_:)`` end.
    public func stop() { commander.yield(.stop) }

    private func runLanes(_ instance: UInt64, _ beforeClosing: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            var drain = Duration.seconds(25)
            var upkeep: Upkeep?
            for await command in commands {
                guard case .install(let snapshot) = command else { break }
                drain = snapshot.configuration.queue.drain
                let keep = Upkeep.Keep(snapshot.configuration.store)
                for lane in await replaceLanes(snapshot, instance) {
                    group.addTask {
                        await lane.run()
                        // A lane that a reload replaced closes its backend at once: nothing else uses that any more.
                        if self.isCurrent(lane) { await beforeClosing() }
                        await lane.backend.shutdown(grace: .seconds(1))
                        self.forget(lane)
                    }
                }
                if let upkeep {
                    upkeep.keep = keep
                } else {
                    let new = Upkeep(store: store, recorder: recorder, time: time, logger: logger, keep: keep)
                    upkeep = new
                    group.addTask { await new.run() }
                }
            }
            upkeep?.stop()
            let leaving = lanesGuarded.withLock { $0.current + $0.leaving }
            for lane in leaving { lane.stop() }
            await self.drain(&group, leaving, within: drain)
        }
    }

    /// Waits for the lanes; those that do not end in time are made to.
    private func drain(_ group: inout TaskGroup<Void>, _ lanes: [Lane], within span: Duration) async {
        await withTaskGroup(of: Void.self) { deadline in
            deadline.addTask { [time] in
                do {
                    try await time.sleep(for: span)
                } catch {
                    return  // Everything ended in time.
                }
                for lane in lanes { await lane.abandon() }
            }
            await group.waitForAll()
            deadline.cancelAll()
        }
    }

    private func replaceLanes(_ snapshot: GatewaySnapshot, _ instance: UInt64) async -> [Lane] {
        let around = Lane.Surroundings(
            store: store,
            recorder: recorder,
            devices: devices,
            operations: operations,
            desk: desk,
            time: time,
            observer: observer,
            logger: logger,
            decode: decode,
            instance: instance
        )
        var new: [Lane] = []
        for backend in snapshot.backends {
            let watch = await desk.watch(backend.name, snapshot.configuration.invalidationGuard)
            new.append(Lane(backend, snapshot.laneSettings(of: backend.name), watch: watch, around))
        }
        let old = lanesGuarded.withLock { lanes in
            let old = lanes.current
            lanes.leaving += old
            lanes.current = new
            return old
        }
        for lane in old { lane.stop() }
        return new
    }

    private func isCurrent(_ lane: Lane) -> Bool {
        lanesGuarded.withLock { $0.current.contains { $0 === lane } }
    }

    private func forget(_ lane: Lane) {
        lanesGuarded.withLock { $0.leaving.removeAll { $0 === lane } }
    }

    /// The number that marks this gateway's message ids, made once and kept in the store.
    private func instanceNumber() async throws(StoreError) -> UInt64 {
        let name = "gateway.instance"
        if let kept = try await store.loadState(name), let number = UInt64(String(decoding: kept, as: UTF8.self)) {
            return number
        }
        let number = UInt64.random(in: 1 ... .max)
        try await store.saveState(name, Array(String(number).utf8))
        return number
    }
}
