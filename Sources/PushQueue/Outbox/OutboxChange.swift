public import Foundation
internal import PushCore

/// What happened to a device and is not planned yet: the raw form in which it waits in the outbox.
///
/// A store keeps it in the commit that changed the device, without asking a plugin. The planner of the gateway turns it
/// into entries afterwards (``OutboxPlan``), outside of every transaction.
public struct OutboxChange: Sendable, Hashable {
    /// What happened.
    public enum Content: Sendable, Hashable {
        /// A device came, changed or went: how it was and how it is now, nil where there is none.
        case device(old: Device?, new: Device?)
        /// A backfill: one backend gets the device as if it were new.
        case introduction(Device, backend: String)
        /// An entry that was asked for while an older change of its device was not planned.
        case operation(OutboxEntry)

        /// A change that platforms may have to be told of; nil when nothing differs but the record's own times, and
        /// tokens of other kinds than the app's own.
        public init?(from old: Device?, to new: Device?) {
            if var same = old, let new {
                same.createdAt = new.createdAt
                same.updatedAt = new.updatedAt
                same.lastSeen = new.lastSeen
                let tokens = same.tokens.filter { $0.kind == .device }
                same.tokens = new.tokens
                if same == new, tokens == new.tokens.filter({ $0.kind == .device }) { return nil }
            }
            guard old != nil || new != nil else { return nil }
            self = .device(old: old, new: new)
        }

        /// The id of the device that it is about.
        public var device: String {
            switch self {
            case .device(let old, let new): (new ?? old)?.id ?? ""
            case .introduction(let device, _): device.id
            case .operation(let operation): operation.device
            }
        }
    }

    /// Its place in the outbox, which grows with the order of the commits.
    public var number: Int64
    /// When it happened.
    public var at: Date
    /// What happened.
    public var content: Content

    /// Makes a change.
    public init(number: Int64, at: Date, content: Content) {
        self.number = number
        self.at = at
        self.content = content
    }
}

/// What became of a change: the entries that platforms are to carry out because of it, in order; none is common.
public struct OutboxPlan: Sendable, Hashable {
    /// The number of the change.
    public var change: Int64
    /// The operations.
    public var operations: [OutboxEntry]

    /// Makes a plan.
    public init(change: Int64, _ operations: [OutboxEntry]) {
        self.change = change
        self.operations = operations
    }
}
