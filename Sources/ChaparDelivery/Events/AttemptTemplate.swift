internal import Foundation
internal import ChaparCore
internal import ChaparComposition
internal import ChaparQueue

/// A writer of the attempts and events of deliveries that one backend's platform accepted.
///
/// The result equals that of ``EventJSON`` byte for byte. The shared parts are cut from two samples that `EventJSON`
/// wrote. It is made once for a worker; for unusual deliveries `EventJSON` is used.
package struct AttemptTemplate {
    /// The placeholder for the platform's id or a token in a sample: it needs no escape and occurs in no name.
    private static let placeholder = "\u{7F}\u{7F}\u{7F}"

    /// A moment and its text.
    struct Moment {
        let time: Date
        fileprivate let text: [UInt8]

        init(_ time: Date) {
            self.time = time
            text = Array(RFC3339.string(time).utf8)
        }
    }

    /// The text between the recipient and the name of the API key, which follows it in the event.
    private static let callerMember = Array(#"","caller":""#.utf8)

    private let backend: String
    /// The attempt's text before and after the time and the platform's id.
    private let attemptParts: [ArraySlice<UInt8>]
    /// The event's text before and after the time, the notification's id, the delivery's number, the recipient and the
    /// attempt.
    private let eventParts: [ArraySlice<UInt8>]

    init(backend: String) {
        self.backend = backend
        let time = Date(timeIntervalSince1970: 0)
        let moment = RFC3339.string(time)
        let acceptance = Acceptance(platformID: Self.placeholder, status: 200)
        attemptParts = Self.split(
            EventJSON.attempt(.accepted(acceptance), backend: backend, at: time, retryAt: nil),
            at: [moment, Self.placeholder]
        )
        let id = NotificationID(rawValue: .max)
        let sample = ClaimedDelivery(
            id: id.rawValue,
            notificationID: id,
            content: .stored([]),
            recipient: .token(DeviceToken("", service: TokenService(rawValue: Self.placeholder))),
            plan: DeliveryPlan([backend]),
            acceptedAt: time,
            expiresAt: time
        )
        let attempt = "{\(Self.placeholder)}"
        eventParts = Self.split(
            EventJSON.delivery(sample, state: .acceptedByPlatform, at: time, attempt: Array(attempt.utf8)),
            at: [moment, id.description, "0", Self.placeholder + ":", attempt]
        )
    }

    /// Returns the attempt of an acceptance.
    func attempt(_ acceptance: Acceptance, service: TokenService?, at moment: Moment) -> [UInt8] {
        guard attemptParts.count == 3, service == nil, acceptance.status == 200, acceptance.trackingID == nil,
            !acceptance.isForAudience, !acceptance.isVerdictPending, !acceptance.isDryRun,
            var id = acceptance.platformID
        else { return general(acceptance, service, moment.time) }
        let bytes = id.withUTF8 { id -> [UInt8]? in
            guard Self.isPlain(id) else { return nil }
            return Self.bytes(attemptParts.reduce(moment.text.count + id.count) { $0 + $1.count }) { output in
                output.append(attemptParts[0])
                output.append(moment.text[...])
                output.append(attemptParts[1])
                output.append(id)
                output.append(attemptParts[2])
            }
        }
        return bytes ?? general(acceptance, service, moment.time)
    }

    /// Returns the event of a delivery that was accepted.
    func event(_ claim: ClaimedDelivery, attempt: [UInt8], at moment: Moment) -> [UInt8] {
        guard eventParts.count == 6, case .token(let token) = claim.recipient,
            claim.plan.backend(at: claim.step) == backend, claim.head.record.isBare
        else { return general(claim, attempt, moment.time) }
        var id = claim.shownID.description
        var number = String(claim.shownPlace)
        var service = token.service.rawValue
        var value = token.value
        var caller = claim.caller
        let capacity =
            eventParts.reduce(attempt.count + 96) { $0 + $1.count } + service.utf8.count + value.utf8.count
            + caller.utf8.count
        var isPlain = true
        let bytes = Self.bytes(capacity) { output in
            output.append(eventParts[0])
            output.append(moment.text[...])
            output.append(eventParts[1])
            id.withUTF8 { output.append($0) }
            output.append(eventParts[2])
            number.withUTF8 { output.append($0) }
            output.append(eventParts[3])
            service.withUTF8 { output.append($0) }
            output.append(UInt8(ascii: ":"))
            value.withUTF8 {
                isPlain = Self.isPlain($0)
                output.append($0)
            }
            if !caller.isEmpty {
                output.append(Self.callerMember[...])
                caller.withUTF8 {
                    isPlain = isPlain && Self.isPlain($0)
                    output.append($0)
                }
            }
            output.append(eventParts[4])
            output.append(attempt[...])
            output.append(eventParts[5])
        }
        return isPlain ? bytes : general(claim, attempt, moment.time)
    }

    private func general(_ acceptance: Acceptance, _ service: TokenService?, _ time: Date) -> [UInt8] {
        EventJSON.attempt(.accepted(acceptance), backend: backend, at: time, retryAt: nil, service: service)
    }

    private func general(_ claim: ClaimedDelivery, _ attempt: [UInt8], _ time: Date) -> [UInt8] {
        EventJSON.delivery(claim, state: .acceptedByPlatform, at: time, attempt: attempt)
    }

    /// Returns the parts of a text before, between and after other texts, which occur in this order.
    package static func split(_ text: [UInt8], at texts: [String]) -> [ArraySlice<UInt8>] {
        var parts: [ArraySlice<UInt8>] = []
        var from = 0
        parts.reserveCapacity(texts.count + 1)
        for found in texts {
            guard let position = position(of: found, in: text, from: from) else { return [] }
            parts.append(text[from..<position])
            from = position + found.utf8.count
        }
        parts.append(text[from...])
        return parts
    }

    /// Returns the position of a text in another; the collection's general search takes as long as the rest of a small
    /// request.
    private static func position(of found: String, in text: [UInt8], from start: Int) -> Int? {
        var found = found
        return found.withUTF8 { found in
            text.withUnsafeBufferPointer { text in
                guard let first = found.first, text.count - start >= found.count else { return nil }
                return (start...text.count - found.count).first { position in
                    text[position] == first && text[position..<position + found.count].elementsEqual(found)
                }
            }
        }
    }

    /// Whether no byte needs an escape; computed without branches, so that the compiler checks 16 bytes at once.
    package static func isPlain(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var found: UInt8 = 0
        for byte in text {
            found |=
                (byte < 0x20 ? 1 : 0) | (byte == UInt8(ascii: "\"") ? 1 : 0) | (byte == UInt8(ascii: "\\") ? 1 : 0)
        }
        return found == 0
    }

    package static func bytes(_ capacity: Int, _ fill: (inout Output) -> Void) -> [UInt8] {
        var output = Output(capacity)
        fill(&output)
        return output.bytes
    }

    /// A byte buffer with room to append.
    ///
    /// It uses `reserveCapacity`: `Array(unsafeUninitializedCapacity:)` looks up the type of its storage each time,
    /// which takes longer than filling it.
    package struct Output {
        private(set) var bytes: [UInt8] = []

        init(_ capacity: Int) { bytes.reserveCapacity(capacity) }

        mutating func append(_ byte: UInt8) { bytes.append(byte) }

        package mutating func append(_ more: UnsafeBufferPointer<UInt8>) { bytes.append(contentsOf: more) }

        package mutating func append(_ more: ArraySlice<UInt8>) { more.withUnsafeBufferPointer { append($0) } }
    }
}
