import Foundation
import NIOCore
import NIOHTTP1
import ChaparCore
import ChaparQueue

/// The stream of events, which the oracle reads as a client does, over all incarnations of the gateway.
extension Oracle {
    /// Opens the stream when it is not open.
    func follow(_ world: World) {
        guard stream == nil, world.incarnation?.gateway != nil, world.incarnation?.stopped == nil else { return }
        frames.reset()
        stream = world.listen(after: lastEvent) { part in
            switch part {
            case .head(let head):
                // A gateway that ends, or starts while its database is away, opens no stream.
                let isExcused = world.incarnation?.stopped != nil || world.database?.wasAway ?? false
                if head.status == .serviceUnavailable, isExcused { return }
                if head.status != .ok { self.fail("the stream of events is answered with \(head.status)") }
            case .body(let buffer): for event in self.frames.append(buffer.readableBytesView) { self.receive(event) }
            case .end:
                self.stream?.close()
                self.stream = nil
            }
        } onEnd: {
            self.stream = nil
        }
    }

    /// Breaks the connection of the stream.
    func cutStream() { stream?.close() }

    private func receive(_ event: EventFrames.Event) {
        if event.type.hasSuffix("gap") { return fail("events are missing: \(event.data)") }
        if event.number != lastEvent + 1 { fail("event \(event.number) follows event \(lastEvent)") }
        lastEvent = max(lastEvent, event.number)
        compare(event)
        // Outbox entries have random numbers of Foundation's, which the simulation does not draw.
        trace.record("event \(event.number) \(event.type.hasPrefix("operation.") ? event.type : event.data)")
        guard let json = event.json else { return fail("event \(event.number) is not JSON: \(event.data)") }
        webhooks.log[event.number] = WebhookModel.Event(
            type: event.type,
            notification: json["notification"]?.stringValue ?? ""
        )
        if event.type == "notification.accepted" {
            announce(json)
        } else if event.type.hasPrefix("notification.") {
            advanceCampaign(json)
        } else if event.type.hasPrefix("delivery.") {
            advance(json, event.type)
            guard let id = json["notification"]?.stringValue, let serial = serials[id], webhooks.finishedAt[id] == nil,
                submissions[serial].isSettled
            else { return }
            webhooks.finishedAt[id] = event.number
        }
    }

    private func announce(_ event: JSONValue) {
        guard let id = event["notification"]?.stringValue else { return }
        // An id that was not committed may be given again after a crash.
        ignored.remove(id)
        let title = event["title"]?.stringValue
        if let number = campaigns.number(named: title) { return announceResend(number, id, event) }
        guard let serial = title.flatMap({ Int($0) }) else {
            // Its user was erased before it was read.
            if event["erased"] != nil, serials[id] == nil { ignored.insert(id) }
            return
        }
        if submissions[serial].isAnnounced { fail("message \(serial) is announced twice") }
        submissions[serial].isAnnounced = true
        // The answer to the client may have been lost.
        if submissions[serial].id == nil {
            submissions[serial].id = id
            serials[id] = serial
        }
    }

    private func advance(_ event: JSONValue, _ type: String) {
        guard let id = event["notification"]?.stringValue, !ignored.contains(id) else { return }
        let state = String(type.dropFirst("delivery.".count))
        if advanceCampaignDelivery(id, event, state) { return }
        guard let serial = serials[id] else { return fail("an event of \(id) comes before it is announced") }
        if event["state"]?.stringValue == nil { return }
        let index = Int(event["delivery"]?.integerValue ?? -1)
        if event["attempt"]?["reason"]?.stringValue == "gateway_restarted" {
            restarted.insert(submissions[serial].key(index))
        }
        if let at = event["attempt"]?["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }),
            let wait = event["attempt"]?["retry_after"]?.numberValue
        {
            submissions[serial].due[index] = at.addingTimeInterval(wait)
        }
        if event["reason"]?.stringValue == "awaits_report" {
            submissions[serial].awaiting.insert(index)
            submissions[serial].reportable.insert(index)
            if let at = event["attempt"]?["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }) {
                submissions[serial].due[index] = at.addingTimeInterval(Double(World.escalationWait))
            }
        }
        guard DeliveryState(rawValue: state)?.isFinal ?? false else { return }
        if submissions[serial].awaiting.contains(index), submissions[serial].ended[index] == nil,
            state == "delivered" || state == "opened"
        {
            submissions[serial].reportEnds[index] = trace.scheduler?.now
        }
        if let before = submissions[serial].ended.updateValue(state, forKey: index), !Self.isLater(state, before) {
            fail("delivery \(index) of message \(serial) ends twice: \(before), then \(state)")
        }
        switch state {
        case "expired": cover(.expired)
        case "unknown": cover(.unknown)
        case "failed": cover(.failed)
        case "opened": cover(.opened)
        case "accepted_by_platform" where event["backend"]?.stringValue == "alpha":
            submissions[serial].reportable.insert(index)
        default: break
        }
    }

    // MARK: Receipts

    /// Whether a receipt leads from one state to another, in both of which a platform has the message.
    static func isLater(_ state: String, _ before: String) -> Bool {
        guard let from = DeliveryState(rawValue: before), let to = DeliveryState(rawValue: state) else { return false }
        return from.canBecome(to) && isAcceptance(state)
    }

    /// A delivery by what the platforms call it: the serial number and the index.
    private func delivery(_ key: String) -> (serial: Int, index: Int)? {
        let parts = key.split(separator: "/")
        guard parts.count == 2, let serial = Int(parts[0]), let index = Int(parts[1].dropFirst()) else { return nil }
        return submissions.indices.contains(serial) ? (serial, index) : nil
    }

    /// Whether the gateway has told that the platform which reports accepted a delivery, which may have gone on to
    /// another one.
    func isAccepted(_ key: String) -> Bool {
        guard let (serial, index) = delivery(key) else { return false }
        return submissions[serial].reportable.contains(index)
    }

    /// Records that a platform's report was answered.
    func reported(_ key: String, _ event: DeliveryReceipt.Event) {
        guard let (serial, index) = delivery(key) else { return }
        let before = submissions[serial].reported[index]
        if before == event.rawValue { cover(.repeatedReceipt) }
        if before.map({ Self.isLater(event.rawValue, $0) }) ?? true {
            submissions[serial].reported[index] = event.rawValue
        }
    }

    /// A delivery is as far as the platform has reported.
    func judgeReceipts(_ message: Submission, _ index: Int, _ state: String, _ world: World) {
        // A report that comes when the next platform has the message comes too late.
        if message.awaiting.contains(index), world.platforms[1].offered[message.key(index)] != nil { return }
        guard let reported = message.reported[index], reported != state, !Self.isLater(state, reported) else { return }
        fail("\(message.key(index)) was reported as \(reported), and counts as \(state)")
    }

    /// Whether a state says that a platform has accepted the message: every report of it is believed, or it follows such
    /// a report.
    static func isAcceptance(_ state: String) -> Bool {
        guard let state = DeliveryState(rawValue: state) else { return false }
        return state.canBeRecordedLate || DeliveryState.delivered.canBecome(state)
    }

    /// Whether a final state says that no platform has the message, which is wrong of one that may have been sent.
    static func isDenial(_ state: String) -> Bool {
        guard let ending = DeliveryState(rawValue: state), ending.canBeRecorded else { return false }
        return !isAcceptance(state) && ending != RecordRules.withdrawnState(mayHaveBeenSent: true)
    }
}
