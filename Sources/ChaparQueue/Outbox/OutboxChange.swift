public import Foundation
internal import ChaparCore

/// A change of a device that is not planned yet, in the raw form in which it waits in the outbox.
///
/// A store writes it in the commit that changes the device, without calling a plugin. The gateway's planner turns it
/// into entries afterwards (``OutboxPlan``), outside any transaction.
public struct OutboxChange: Sendable, Hashable {
    /// The content of a change.
    public enum Content: Sendable, Hashable {
        /// A device was created, changed or removed: its old and its new form, nil where there is none.
        case device(old: Device?, new: Device?)
        /// A backfill: one backend gets the device as if it were new.
        case introduction(Device, backend: String)
        /// An entry that was requested while an older change of its device was not planned.
        case operation(OutboxEntry)

        /// Makes a change that may have to be sent to platforms; nil when only the record's own times, or tokens of
        /// other kinds than the app's own, differ.
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

        /// The id of the device.
        public var device: String {
            switch self {
            case .device(let old, let new): (new ?? old)?.id ?? ""
            case .introduction(let device, _): device.id
            case .operation(let operation): operation.device
            }
        }
    }

    /// The place in the outbox, which grows with the order of the commits.
    public var number: Int64
    /// The time of the change.
    public var at: Date
    /// The content.
    public var content: Content

    /// Makes a change.
    public init(number: Int64, at: Date, content: Content) {
        self.number = number
        self.at = at
        self.content = content
    }
}

/// The entries that a change leads to, in order; often there are none.
public struct OutboxPlan: Sendable, Hashable {
    /// The number of the change.
    public var change: Int64
    /// The entries.
    public var operations: [OutboxEntry]

    /// Makes a plan.
    public init(change: Int64, _ operations: [OutboxEntry]) {
        self.change = change
        self.operations = operations
    }
}
