import Foundation
import SimulationDisk

/// The disk of a world, with what goes wrong on it.
///
/// `@unchecked Sendable`: one thread at a time, see ``Scheduler``.
final class FaultyDisk: DiskDecider, @unchecked Sendable {
    /// A fault of the calls that come next.
    enum Fault: Int, CaseIterable {
        case shortWrites
        case failingSyncs
        /// A sync that fails and counts as done from then on, as Linux does it. The store survives it together with a
        /// loss of power since it starts a new log when it opens.
        case forgettingSyncs
        case full
    }

    /// A real folder, since the store makes its lock file itself; the files of the database are in memory.
    static let folder = "/tmp/chapar-simulation-\(getpid())"

    private let scheduler: Scheduler
    private var disk: SimulatedDisk?
    private weak var threads: SimulatedThreads?
    private var pauses = 0
    private(set) var fault: Fault?
    /// How many calls went wrong.
    private(set) var faults = 0
    private var faultyCalls = 0
    /// The fault at one of the next calls.
    private var faultIn: (calls: Int, fault: Fault)?
    /// The call at which the process or the machine stops; nil for never.
    private var crashIn: (calls: Int, kind: CrashKind)?
    private(set) var crashed: CrashKind?
    /// The faults so far, by kind.
    var counts: DiskCounts { disk?.counts ?? DiskCounts() }

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        try? FileManager.default.removeItem(atPath: Self.folder)
        try? FileManager.default.createDirectory(atPath: Self.folder, withIntermediateDirectories: true)
        let disk = SimulatedDisk(folder: Self.folder, decider: self)
        disk.register()
        self.disk = disk
    }

    /// Ends the world.
    func remove() {
        disk?.unregister()
        disk = nil
        try? FileManager.default.removeItem(atPath: Self.folder)
    }

    var path: String { Self.folder + "/gateway.db" }

    /// Whether calls fail now.
    var isFailing: Bool { fault != nil || crashed != nil }

    /// The bytes that are left.
    var freeBytes: @Sendable (String) -> Int64? {
        { [weak self] _ in
            guard let self, fault == .full else { return 1 << 40 }
            faults += 1
            return 0
        }
    }

    /// A incarnation begins.
    func begin(_ threads: SimulatedThreads, pauses: Int) {
        self.threads = threads
        self.pauses = pauses
        crashed = nil
        // The lock of a dead incarnation is held by its objects, which nothing frees: a new file takes its index.
        try? FileManager.default.removeItem(atPath: path + ".lock")
        disk?.restart()
    }

    /// Everything stops now.
    func crash(_ kind: CrashKind) {
        crashIn = nil
        disk?.crash(kind)
        crashed = kind
    }

    /// Everything stops at one of the next calls.
    func crash(_ kind: CrashKind, inCalls calls: Int) { crashIn = (calls, kind) }

    /// The next calls go wrong.
    func fault(_ fault: Fault, calls: Int) { (self.fault, faultyCalls) = (fault, calls) }

    /// One of the next calls goes wrong.
    func fault(_ fault: Fault, inCalls calls: Int) { faultIn = (calls, fault) }

    /// Nothing goes wrong any more.
    func heal() { (fault, faultIn, crashIn) = (nil, nil, nil) }

    // MARK: DiskDecider

    func answer(_ call: DiskCall) -> DiskAnswer {
        if let crash = crashIn {
            crashIn?.calls -= 1
            if crash.calls <= 0 {
                crashIn = nil
                crashed = crash.kind
                return .crash(crash.kind, written: scheduler.draw(below: call.count + 1))
            }
        }
        if let next = faultIn {
            faultIn?.calls -= 1
            if next.calls <= 0 {
                faultIn = nil
                fault(next.fault, calls: 2)
            }
        }
        guard let fault else { return .proceed }
        faultyCalls -= 1
        if faultyCalls <= 0 { self.fault = nil }
        let answer: DiskAnswer =
            switch fault {
            case .shortWrites: .fail(written: scheduler.draw(below: call.count + 1))
            case .failingSyncs: call.kind == .sync ? .fail(written: 0) : .proceed
            case .forgettingSyncs: call.kind == .sync ? .forget : .proceed
            case .full: call.kind == .write ? .full(written: scheduler.draw(below: call.count + 1)) : .proceed
            }
        if answer != .proceed { faults += 1 }
        return answer
    }

    func fate(of change: UnsyncedChange) -> ChangeFate {
        let sector = scheduler.draw(below: change.sectors + 1)
        return switch scheduler.draw(below: 8) {
        case 0, 1: .kept
        case 2: .prefix(sectors: sector)
        case 3: .suffix(sectors: sector)
        case 4: .single(sector: sector)
        case 5: .enlarged
        case 6: .garbled(UInt64(sector) &+ 1)
        default: .dropped
        }
    }

    func keptEntries(of count: Int) -> Int { scheduler.draw(below: count + 1) }

    func random() -> UInt64 { UInt64(scheduler.draw(below: 1 << 62)) }

    var now: Int64 { Int64(scheduler.wall.timeIntervalSince1970 * 1000) }

    func sleep(microseconds: Int) { threads?.pauseHere() }

    func pause(_ moment: DiskMoment, _ call: DiskCall) {
        if case .after = moment, crashed != nil { threads?.stopIfRunning() }
        if pauses > 0, scheduler.chance(pauses) { threads?.pauseHere() }
    }
}
