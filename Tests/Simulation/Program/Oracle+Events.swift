import Foundation
import NIOCore
import NIOHTTP1
import PushCore
import PushQueue

/// The stream of events, which the oracle reads as a client does, over all incarnations of the gateway.
extension Oracle {
    /// Opens the stream when it is not open.
    func follow(_ world: World) {
        guard stream == nil, world.incarnation?.gateway != nil, world.incarnation?.stopped == nil else { return }
        frames.reset()
        stream = world.listen(after: lastEvent) { part in
            switch part {
            case .head(let head):
                if head.status == .serviceUnavailable, world.incarnation?.stopped != nil { return }
                if head.status != .ok { self.fail("the stream of events is answered with \(head.status)") }
            case .body(let buffer): for event in self.frames.append(buffer.readableBytesView) { self.receive(event) }
            case .end: self.stream = nil
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
        if event.type == "notification.accepted" {
            announce(json)
        } else if event.type.hasPrefix("delivery.") {
            advance(json, event.type)
        }
    }

    private func announce(_ event: JSONValue) {
        guard let id = event["notification"]?.stringValue else { return }
        // An id that was not committed may be given again after a crash.
        ignored.remove(id)
        guard let serial = event["title"]?.stringValue.flatMap({ Int($0) }) else {
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
        guard let serial = serials[id] else { return fail("an event of \(id) comes before it is announced") }
        if event["state"]?.stringValue == nil { return }
        let state = String(type.dropFirst("delivery.".count))
        let index = Int(event["delivery"]?.integerValue ?? -1)
        if event["attempt"]?["reason"]?.stringValue == "gateway_restarted" {
            restarted.insert(submissions[serial].key(index))
        }
        if let at = event["attempt"]?["steady_at"]?.stringValue.flatMap({ RFC3339.parse($0) }),
            let wait = event["attempt"]?["retry_after"]?.numberValue
        {
            submissions[serial].due[index] = at.addingTimeInterval(wait)
        }
        guard DeliveryState(rawValue: state)?.isFinal ?? false else { return }
        if let before = submissions[serial].ended.updateValue(state, forKey: index) {
            fail("delivery \(index) of message \(serial) ends twice: \(before), then \(state)")
        }
        switch state {
        case "expired": cover(.expired)
        case "unknown": cover(.unknown)
        case "failed": cover(.failed)
        default: break
        }
    }
}
