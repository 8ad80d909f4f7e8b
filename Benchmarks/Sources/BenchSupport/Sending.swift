public import ChaparCore
import Synchronization

/// A number as lower-case hexadecimal digits after zeros.
public func hexadecimal(_ number: UInt64, digits: Int) -> String {
    String(unsafeUninitializedCapacity: digits) { text in
        for place in 0..<digits {
            let shift = 4 * (digits - 1 - place)
            let nibble = shift < 64 ? UInt8(truncatingIfNeeded: number >> UInt64(shift)) & 15 : 0
            text[place] = nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "a") - 10 + nibble
        }
        return digits
    }
}

private let text = LocalizedText.plain(
    "Your parcel is on its way and should arrive tomorrow between nine and noon. Tap to follow it, to change the day or "
        + "to name a neighbour."
)

/// The notification with a number, to a token: with a title and an id of its own.
public func request(_ number: UInt64, to token: DeviceToken) -> PushRequest {
    var notification = PushNotification(title: .plain("Order " + hexadecimal(number, digits: 6) + " shipped"))
    notification.body = text
    notification.sound = "default"
    notification.badge = 1
    let id = MessageID(high: 0x0190_0000_0000_7000, low: 0x8000_0000_0000_0000 | number)
    return PushRequest(notification, to: [Addressee(.token(token), messageID: id)], expiration: .immediately)
}

/// What became of the notifications.
private final class Tally: Sendable {
    let accepted = Atomic(0)
    let failed = Atomic(0)
}

/// Sends `total` notifications through a backend, from several senders in batches, and prints one JSON line; `token` gives the token
/// for a number.
public func measure(
    _ backend: any PushBackend,
    total: Int,
    senders: Int,
    batch: Int,
    token: @escaping @Sendable (UInt64) -> DeviceToken
) async throws {
    _ = await backend.send([request(0, to: token(0))])  // Opens the connection.
    let tally = Tally()
    let clock = ContinuousClock()
    let cpuBefore = used().cpu
    let began = clock.now
    await withTaskGroup(of: Void.self) { tasks in
        for sender in 0..<senders {
            tasks.addTask {
                var next = total * sender / senders
                let end = total * (sender + 1) / senders
                while next < end {
                    let numbers = (next..<min(next + batch, end)).map(UInt64.init)
                    next += numbers.count
                    await backend.send(numbers.map { request($0, to: token($0)) }) { reports in
                        var good = 0
                        for report in reports {
                            if case .accepted = report.outcome { good += 1 }
                        }
                        tally.accepted.add(good, ordering: .relaxed)
                        tally.failed.add(reports.count - good, ordering: .relaxed)
                    }
                }
            }
        }
    }
    let took = began.duration(to: clock.now) / .seconds(1)
    let cpu = used().cpu - cpuBefore
    let done = tally.accepted.load(ordering: .relaxed)
    try show([
        "requests": Double(done), "failed": Double(tally.failed.load(ordering: .relaxed)), "seconds": took,
        "rps": Double(done) / took, "cpu_us_per_request": cpu * 1e6 / Double(max(done, 1)),
    ])
}
