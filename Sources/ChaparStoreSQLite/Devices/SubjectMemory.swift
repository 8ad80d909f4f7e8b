import ChaparQueue
import Synchronization

/// The devices that windows of campaigns have read, kept until their deliveries are sent.
///
/// A device is looked at again right before a send. As long as no commit has changed it, what its window read is what
/// the file has. So each commit that changes devices removes them from this memory before its callers get their
/// answers; a window that began before such a commit keeps no device here. Each device is returned once.
final class SubjectMemory: Sendable {
    /// The most devices: a little more than wait of a campaign at a time.
    static let most = 12_000

    private struct State {
        var subjects: [String: AudienceSubject] = [:]
        var ids: [Int64: String] = [:]
        /// The number of commits that changed devices.
        var mark: UInt64 = 0
    }

    private let state = Mutex(State())

    /// The point to name to ``keep(_:readAfter:)``; it is asked for before the snapshot of a read begins.
    var mark: UInt64 { state.withLock { $0.mark } }

    /// The number of devices that are kept.
    var count: Int { state.withLock { $0.subjects.count } }

    /// Keeps devices that were read after a mark, unless a device has changed since.
    func keep(_ subjects: [AudienceSubject], readAfter mark: UInt64) {
        state.withLock { state in
            guard mark == state.mark, subjects.count <= Self.most else { return }
            if state.subjects.count + subjects.count > Self.most {
                // Cancelled campaigns left them: nothing takes them out.
                state.subjects.removeAll(keepingCapacity: true)
                state.ids.removeAll(keepingCapacity: true)
            }
            for subject in subjects {
                state.subjects[subject.device.id] = subject
                state.ids[subject.number] = subject.device.id
            }
        }
    }

    /// Takes devices out; those that are not kept are missing.
    func take(_ ids: [String]) -> [String: AudienceSubject] {
        state.withLock { state in
            guard !state.subjects.isEmpty else { return [:] }
            var found: [String: AudienceSubject] = [:]
            found.reserveCapacity(ids.count)
            for id in ids {
                guard let subject = state.subjects.removeValue(forKey: id) else { continue }
                state.ids[subject.number] = nil
                found[id] = subject
            }
            return found
        }
    }

    /// Forgets devices that a commit has changed.
    func forget(_ changed: ChangedDevices) {
        state.withLock { state in
            state.mark &+= 1
            guard !changed.isAll else {
                state.subjects = [:]
                state.ids = [:]
                return
            }
            guard !state.ids.isEmpty else { return }
            for number in changed.numbers {
                if let id = state.ids.removeValue(forKey: number) { state.subjects[id] = nil }
            }
        }
    }
}

/// The devices that a call changes, by their numbers, with what their labels say.
struct ChangedDevices: Sendable {
    /// A number may occur more than once.
    private(set) var numbers: [Int64] = []
    /// Whether it may be any device.
    var isAll = false

    var isEmpty: Bool { numbers.isEmpty && !isAll }

    mutating func note(_ number: Int64) { if numbers.last != number { numbers.append(number) } }
}
