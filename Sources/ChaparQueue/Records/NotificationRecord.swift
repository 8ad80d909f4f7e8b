public import ChaparComposition
package import ChaparCore
public import Foundation

/// The part of a notification that no query of a store needs.
///
/// A store keeps it as one value (``encoded``), and so do its archive, its staged rows, a copy and a backup. To add a
/// field: a property here with a tag of its own, the reader of the request, and the writer of the answer. Values by
/// which a store filters, joins, orders or changes rows are columns instead: id, caller, collapse id, expiry, scheduled
/// time.
public struct NotificationRecord: Sendable, Hashable {
    /// The content as the request has it, which is JSON.
    public var content: [UInt8]
    /// The plans of its recipients, in the order in which they were first needed; never empty.
    public var plans: [DeliveryPlan]
    /// The time of acceptance, in the store's steady time, to the millisecond.
    public var acceptedAt: Date
    /// The fields that few notifications have; nil when this one has none of them.
    ///
    /// They are behind one reference, since a record is copied several times on its way.
    private var rare: RareFields?

    /// The sender's own JSON object, which status, deliveries and events return unchanged; nil when the sender gave
    /// none.
    ///
    /// At most 512 bytes.
    public var metadata: [UInt8]? {
        get { rare?.values.metadata }
        set { setRare { $0.metadata = newValue } }
    }

    /// The sender's own id of the message, such as an order's number, by which a search finds it; nil without one.
    ///
    /// At most 128 bytes, and not unique.
    public var reference: String? {
        get { rare?.values.reference }
        set { setRare { $0.reference = newValue } }
    }

    /// The delivery that this notification sends again; nil for any other notification.
    public var resendOf: DeliveryPlace? {
        get { rare?.values.resendOf }
        set { setRare { $0.resendOf = newValue } }
    }

    /// The campaign of which the notification is a part; nil for a notification that a request accepted by itself.
    public var partOf: CampaignPart? {
        get { rare?.values.partOf }
        set { setRare { $0.partOf = newValue } }
    }

    /// The trace that the notification belongs to; nil when its request named none, and none was begun for it.
    public var trace: TraceContext? {
        get { rare?.values.trace }
        set { setRare { $0.trace = newValue } }
    }

    /// The fields that this program does not know, as it read them: for records of a newer program.
    private var unknown: [UInt8] { rare?.values.unknown ?? [] }

    private mutating func setRare(_ change: (inout RareFields.Values) -> Void) {
        var values = rare?.values ?? RareFields.Values()
        change(&values)
        rare = RareFields(values)
    }

    /// The times that a record can have, in milliseconds since 1970: those that a `Date` holds exactly.
    private static let moments: ClosedRange<Int64> = -(1 << 52)...1 << 52

    /// The tags of the fields; a number is never used again.
    private enum Tag {
        static let acceptedAt: UInt64 = 1
        static let plan: UInt64 = 2
        static let content: UInt64 = 3
        static let metadata: UInt64 = 4
        static let resendOf: UInt64 = 5
        static let reference: UInt64 = 6
        static let partOf: UInt64 = 7
        static let trace: UInt64 = 8
    }

    /// The most bytes of ``metadata``.
    package static let maximumMetadataBytes = 512
    /// The most bytes of ``reference``.
    package static let maximumReferenceBytes = 128

    /// Makes a record.
    public init(content: [UInt8], plans: [DeliveryPlan], acceptedAt: Date) {
        (self.content, self.plans, self.acceptedAt) = (content, plans, acceptedAt)
    }

    /// Returns the plan at an index of ``plans``; the last one stands for larger indices.
    package func plan(at place: Int) -> DeliveryPlan { Self.plan(in: plans, at: place) }

    /// Returns the plan at an index of a record's plans; the last one stands for larger indices.
    package static func plan(in plans: [DeliveryPlan], at place: Int) -> DeliveryPlan {
        plans.indices.contains(place) ? plans[place] : plans.last ?? DeliveryPlan([])
    }

    /// Whether ``write(to:)`` writes nothing.
    package var isBare: Bool {
        guard let values = rare?.values else { return true }
        return values.metadata == nil && values.reference == nil && values.resendOf == nil && values.trace == nil
    }

    /// Writes the members of the record that its sender gets back, in answers and in events.
    package func write(to writer: inout JSONWriter) {
        if isBare { return }
        writer.field("reference", reference)
        if let resendOf {
            writer.name("resend_of")
            writer.beginObject()
            writer.field("notification", resendOf.notification.description)
            writer.field("delivery", resendOf.index)
            writer.endObject()
        }
        if let trace {
            writer.field("trace_id", trace.traceID)
            if trace.isSampled { writer.field("trace_sampled", true) }
        }
        guard let metadata else { return }
        writer.name("metadata")
        writer.raw(metadata)
    }

    /// The stored form.
    public var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(32 + 64 * plans.count + content.count + unknown.count)
        encode(to: &bytes)
        return bytes
    }

    /// Appends the stored form.
    package func encode(to bytes: inout [UInt8]) {
        bytes.append(RecordCoding.version)
        RecordCoding.append(Tag.acceptedAt, number: acceptedAt.millisecondsSince1970, to: &bytes)
        for plan in plans {
            RecordCoding.append(Tag.plan, plan.storedForm.utf8, to: &bytes)
        }
        RecordCoding.append(Tag.content, content, to: &bytes)
        guard rare != nil else { return }
        if let metadata { RecordCoding.append(Tag.metadata, metadata, to: &bytes) }
        if let resendOf { RecordCoding.append(Tag.resendOf, resendOf.encoded, to: &bytes) }
        if let reference { RecordCoding.append(Tag.reference, reference.utf8, to: &bytes) }
        if let partOf { RecordCoding.append(Tag.partOf, partOf.encoded, to: &bytes) }
        if let trace { RecordCoding.append(Tag.trace, trace.encoded, to: &bytes) }
        bytes.append(contentsOf: unknown)
    }

    /// Reads the stored form; nil when it is damaged, or of a later version of the coding.
    public init?(encoded bytes: [UInt8]) {
        var content: ArraySlice<UInt8>?
        var plans: [DeliveryPlan] = []
        var acceptedAt: Int64?
        var rare = RareFields.Values()
        var isPartWhole = true
        let isWhole = RecordCoding.read(bytes) { tag, field in
            switch tag {
            case Tag.acceptedAt: acceptedAt = RecordCoding.number(in: field)
            case Tag.plan: plans.append(DeliveryPlan(storedForm: String(decoding: field, as: UTF8.self)))
            case Tag.content: content = field
            case Tag.metadata: rare.metadata = Array(field)
            case Tag.resendOf: rare.resendOf = DeliveryPlace(encoded: field)
            case Tag.reference: rare.reference = String(decoding: field, as: UTF8.self)
            case Tag.partOf:
                rare.partOf = CampaignPart(encoded: field)
                isPartWhole = rare.partOf != nil
            // A damaged one costs the trace, never the message.
            case Tag.trace: rare.trace = TraceContext(encoded: field)
            default: RecordCoding.append(tag, field, to: &rare.unknown)
            }
        }
        guard isWhole, isPartWhole, let content, let acceptedAt, Self.moments.contains(acceptedAt), !plans.isEmpty
        else {
            return nil
        }
        self.init(
            content: Array(content),
            plans: plans,
            acceptedAt: Date(millisecondsSince1970: acceptedAt)
        )
        self.rare = RareFields(rare)
    }
}

/// The fields of a record that few notifications have; never changed, so that copies of a record share them.
private final class RareFields: Sendable, Hashable {
    struct Values: Sendable, Hashable {
        var metadata: [UInt8]?
        var reference: String?
        var resendOf: DeliveryPlace?
        var partOf: CampaignPart?
        var trace: TraceContext?
        var unknown: [UInt8] = []
    }

    let values: Values

    /// Makes the fields; nil when none has a value.
    init?(_ values: Values) {
        guard values != Values() else { return nil }
        self.values = values
    }

    static func == (left: RareFields, right: RareFields) -> Bool { left === right || left.values == right.values }

    func hash(into hasher: inout Hasher) { hasher.combine(values) }
}

/// A delivery by its notification and its index there, as the API names it.
public struct DeliveryPlace: Sendable, Hashable {
    /// The notification.
    public var notification: NotificationID
    /// The index of the delivery among those of the notification, from 0 on.
    public var index: Int

    /// Makes a place.
    public init(notification: NotificationID, index: Int) {
        (self.notification, self.index) = (notification, max(0, index))
    }

    /// The number of the delivery.
    package var number: Int64 { notification.delivery(at: index) }

    /// The stored form: the number of the notification and that of the delivery, each in eight bytes, the lowest first.
    fileprivate var encoded: [UInt8] {
        [notification.rawValue, number].flatMap { number in
            (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
        }
    }

    /// Reads the stored form; nil for bytes of another length, or numbers that no delivery has.
    fileprivate init?(encoded bytes: ArraySlice<UInt8>) {
        guard bytes.count == 16, let head = RecordCoding.number(in: bytes.prefix(8)),
            let number = RecordCoding.number(in: bytes.suffix(8)), (0...NotificationID.highest).contains(head),
            number >= head
        else { return nil }
        self.init(
            notification: NotificationID(rawValue: head),
            index: Int(clamping: number.subtracting(clamping: head))
        )
    }
}
