/// The contents of a store in a form independent of any store: kinds of records, each with named fields in a fixed
/// order.
///
/// ``StoreCopy`` moves records from one ``CopyStore`` to another, kind by kind in this order, so that records come
/// after those that they refer to. Numbers, and times in milliseconds since 1970, are not changed.
package enum CopyKind: String, CaseIterable, Sendable {
    /// The flows of waiting deliveries, by backend, priority and caller.
    case flows
    /// The backends that take over what plans give to backends that are gone.
    case moves
    /// The data that the deliveries of a notification share.
    case notifications
    /// Deliveries that have not ended; those that were claimed are recovered.
    case waiting
    /// Deliveries that have ended.
    case results
    /// Deliveries for which a receipt is expected.
    case receipts
    /// The keys by which a search finds deliveries.
    case searchKeys = "search keys"
    /// Bad ends that a person has handled, or that were sent again.
    case handled
    /// The campaigns.
    case campaigns
    /// The notifications that the windows of campaigns made.
    case parts = "campaign parts"
    /// The events of one commit, with the number of the first.
    case events
    /// Idempotency keys with their answers.
    case keys
    /// Small values, such as credentials: sealed ones stay sealed.
    case state
    case devices
    /// Tokens of devices with tombstones and refusals.
    case tokens
    /// The tags of devices, by which they are found.
    case tags
    /// The labels of users, for audiences.
    case userLabels = "labels of users"
    /// The labels of devices, for audiences.
    case deviceLabels = "labels of devices"
    /// The number of devices with each label.
    case labelCounts = "counts of labels"
    /// Changes of devices that are not planned yet.
    case changes = "outbox changes"
    /// Outbox entries for platforms, none of them leased.
    case entries = "outbox entries"
    /// Endpoints of webhooks with their cursors, none of them held.
    case webhooks
    /// Messages of webhooks that are not delivered.
    case webhookMessages = "webhook messages"
    /// Counts over time.
    case series

    /// A field of a record.
    package struct Field: Sendable {
        package let name: String
        package let type: FieldType

        fileprivate static func integer(_ name: String) -> Field { Field(name: name, type: .integer) }
        fileprivate static func text(_ name: String) -> Field { Field(name: name, type: .text) }
        fileprivate static func bytes(_ name: String) -> Field { Field(name: name, type: .bytes) }
    }

    /// The type of a field's values; each may be null where the stores allow it.
    package enum FieldType: Sendable { case integer, text, bytes, list }

    /// The fields, in order.
    ///
    /// * `waiting.flags`: 1 when an attempt may have been delivered, 2 when it is not to be tried again, 4 when it was
    ///   claimed.
    /// * `waiting.plan`: the index of the delivery's own plan in `notifications.record`, a ``NotificationRecord``. *
    /// `entries.asked`: 1 when the entry waits because the platform asked for the wait.
    package var fields: [Field] {
        switch self {
        case .flows: [.integer("number"), .text("backend"), .integer("urgent"), .text("caller")]
        case .moves: [.text("backend"), .text("target")]
        case .notifications:
            [
                .integer("id"), .integer("count"), .text("caller"), .integer("scheduled"), .integer("expires"),
                .text("collapse_id"), .bytes("record"),
            ]
        case .waiting:
            [
                .integer("id"), .integer("notification"), .integer("flow"), .integer("due"), .integer("expires"),
                .integer("attempts"), .integer("step"), .integer("flags"), .integer("plan"), .integer("collapse"),
                .text("recipient"), .bytes("attempt_log"),
            ]
        case .results:
            [
                .integer("id"), .integer("notification"), .integer("flow"), .integer("changed"), .integer("state"),
                .text("recipient"), .bytes("attempt_log"),
            ]
        case .receipts: [.integer("message"), .integer("token"), .integer("delivery")]
        case .searchKeys: [.integer("hash"), .integer("delivery")]
        case .handled: [.integer("id"), .integer("acknowledged"), .integer("resent")]
        case .campaigns: [.integer("id"), .integer("version"), .integer("ended"), .bytes("packed")]
        case .parts:
            [.integer("campaign"), .integer("first"), .integer("place"), .integer("count"), .integer("open")]
        case .events: [.integer("first"), .integer("at"), Field(name: "texts", type: .list)]
        case .keys: [.text("caller"), .text("key"), .bytes("fingerprint"), .bytes("answer"), .integer("keep")]
        case .state: [.text("name"), .bytes("value")]
        case .devices:
            [
                .integer("number"), .text("id"), .text("user_key"), .text("platform"), .text("tags"), .text("locale"),
                .text("version"), .text("zone"), .integer("created"), .integer("updated"), .integer("seen"),
                .text("attributes"),
            ]
        case .tokens:
            [
                .integer("device"), .text("slot"), .text("token"), .integer("hash"), .integer("registered"),
                .text("environment"), .text("refusals"), .integer("as_of"), .integer("invalidated"), .text("backend"),
                .text("reason"), .integer("held"),
            ]
        case .tags: [.text("tag"), .integer("device")]
        case .userLabels: [.text("user_key"), .text("label")]
        case .deviceLabels: [.text("label"), .integer("device")]
        case .labelCounts: [.text("app"), .text("label"), .integer("devices")]
        case .changes:
            [
                .integer("number"), .text("device"), .integer("at"), .text("backend"), .text("old"), .text("new"),
                .text("entry"), .text("skipped"),
            ]
        case .entries:
            [
                .integer("number"), .text("id"), .text("backend"), .text("device"), .text("user_key"), .text("kind"),
                .text("body"), .integer("at"), .integer("attempts"), .integer("due"), .integer("asked"),
            ]
        case .webhooks:
            [
                .text("name"), .text("app"), .integer("revision"), .bytes("settings"), .integer("cursor"),
                .bytes("memory"),
            ]
        case .webhookMessages:
            [
                .text("webhook"), .text("id"), .integer("number"), .integer("state"), .integer("due"),
                .bytes("record"),
            ]
        case .series:
            [.integer("scale"), .integer("start"), .text("backend"), .integer("run"), .bytes("counts")]
        }
    }

    /// The number of leading fields that form the key.
    ///
    /// Pages continue after a key.
    package var keyCount: Int {
        switch self {
        case .series: 4
        case .receipts: 3
        case .keys, .tokens, .tags, .searchKeys, .parts, .userLabels, .deviceLabels, .labelCounts, .webhookMessages: 2
        default: 1
        }
    }

    /// Names in the table of small values that belong to a store itself and are not copied.
    package static let ownNames = ["store.version", "backup.taken", CopyMark.name]
}

/// A field's value.
package enum CopyValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case text(String)
    case bytes([UInt8])
    case list([[UInt8]])

    package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
    package var text: String? { if case .text(let text) = self { text } else { nil } }
    package var bytes: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
    package var list: [[UInt8]] { if case .list(let list) = self { list } else { [] } }

    /// Makes a text without NUL characters, which one of the stores cannot hold.
    package init(text: String?) { self = text.map { .text($0.replacing("\0", with: "")) } ?? .null }
    package init(_ number: Int64?) { self = number.map { .integer($0) } ?? .null }
    package init(bytes: [UInt8]?) { self = bytes.map { .bytes($0) } ?? .null }
}

/// A record: a value for each of its kind's fields.
package typealias CopyRecord = [CopyValue]

/// Some records of a kind.
package struct CopyPage: Sendable {
    package var records: [CopyRecord]
    /// The key to continue after; nil when these were the last.
    package var next: [CopyValue]?

    package init(_ records: [CopyRecord], next: [CopyValue]?) { (self.records, self.next) = (records, next) }
}

/// The values that a store has only once.
package struct CopyHeader: Sendable, Hashable {
    /// The highest event number.
    package var lastEvent: Int64
    /// The difference of the wall clock from the steady time of the store's times, in milliseconds.
    package var ahead: Int64

    package init(lastEvent: Int64, ahead: Int64) { (self.lastEvent, self.ahead) = (lastEvent, ahead) }
}
