internal import Foundation
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue

/// A writer of the texts about the notifications of one request: their events, and their parts of a batch's answer.
///
/// The result equals that of ``EventJSON`` and ``NotificationIntake/Enqueued`` byte for byte. The parts that all
/// notifications share are cut from a sample that these types wrote; for unusual notifications these types are used.
struct NotificationTemplate {
    /// The properties that decide the shared part of an event.
    private struct Kind: Equatable {
        var state: DeliveryState
        var recipients: Int
        var backend: String?
    }

    private static let sampleID = NotificationID(rawValue: .max)
    private static let sampleTitle = "\u{7F}\u{7F}\u{7F}"

    private let time: Date
    /// The name of the request's API key, empty without one.
    private let caller: String
    private var kind: Kind?
    /// The event's text before the id, between id and title, and after the title.
    private var parts: [ArraySlice<UInt8>] = []

    /// Makes a writer for notifications that are accepted at a moment.
    init(at time: Date, caller: String) {
        self.time = time
        self.caller = caller
    }

    /// Returns the event of an acceptance.
    mutating func event(
        _ id: NotificationID,
        state: DeliveryState,
        recipients: Int,
        record: NotificationRecord,
        title: String?
    ) -> [UInt8] {
        func made(_ id: NotificationID, _ title: String?) -> [UInt8] {
            EventJSON.accepted(
                id,
                at: time,
                state: state,
                recipients: recipients,
                record: record,
                title: title,
                caller: caller
            )
        }
        guard record.isBare else { return made(id, title) }
        let wanted = Kind(state: state, recipients: recipients, backend: record.plan(at: 0).backends.first)
        guard kind == wanted else {  // A kind may occur only once.
            (kind, parts) = (wanted, [])
            return made(id, title)
        }
        if parts.isEmpty {
            let sample = made(Self.sampleID, Self.sampleTitle)
            parts = AttemptTemplate.split(sample, at: [Self.sampleID.description, Self.sampleTitle])
        }
        guard parts.count == 3, var text = title, let event = Self.join(parts, id, &text) else {
            return made(id, title)
        }
        return event
    }

    /// Joins the parts with id and title; nil when the title needs an escape.
    private static func join(_ parts: [ArraySlice<UInt8>], _ id: NotificationID, _ title: inout String) -> [UInt8]? {
        var id = id.description
        return title.withUTF8 { title -> [UInt8]? in
            guard AttemptTemplate.isPlain(title) else { return nil }
            let capacity = parts.reduce(title.count + id.utf8.count) { $0 + $1.count }
            return AttemptTemplate.bytes(capacity) { output in
                output.append(parts[0])
                id.withUTF8 { output.append($0) }
                output.append(parts[1])
                output.append(title)
                output.append(parts[2])
            }
        }
    }

    // MARK: Answers

    /// The answer about a notification with one recipient that is sent at once: the text before and after the id.
    private static let answer: [ArraySlice<UInt8>] = {
        var writer = JSONWriter()
        let sample = NotificationIntake.Enqueued(
            id: sampleID,
            state: .queued,
            recipients: 1,
            warnings: [],
            labels: AcceptanceLabels(route: "")
        )
        writer.beginObject()
        sample.writeInBatch(to: &writer)
        writer.endObject()
        return AttemptTemplate.split(writer.bytes, at: [sampleID.description])
    }()

    /// Writes the part of a batch's answer that is about one notification.
    static func write(_ accepted: NotificationIntake.Enqueued, to writer: inout JSONWriter) {
        guard answer.count == 2, accepted.state == .queued, accepted.recipients == 1, accepted.warnings.isEmpty else {
            writer.beginObject()
            accepted.writeInBatch(to: &writer)
            writer.endObject()
            return
        }
        var id = accepted.id.description
        withUnsafeTemporaryAllocation(
            of: UInt8.self,
            capacity: answer[0].count + id.utf8.count + answer[1].count
        ) { bytes in
            var end = bytes.update(fromContentsOf: answer[0])
            end = id.withUTF8 { bytes[end...].update(fromContentsOf: $0) }
            end = bytes[end...].update(fromContentsOf: answer[1])
            writer.raw(UnsafeMutableBufferPointer(rebasing: bytes[..<end]))
        }
    }
}

extension NotificationIntake.Enqueued {
    /// Writes the members of a batch's answer about one notification, into an object that the caller has begun.
    fileprivate func writeInBatch(to writer: inout JSONWriter) {
        writer.field("status", 202)
        write(to: &writer, stateName: "state")
    }
}
