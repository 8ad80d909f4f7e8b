import Foundation
import NIOHTTP1
import ChaparCore

extension World {
    /// A callback that a platform repeats until it is answered.
    struct Callback {
        let key: String
        let event: DeliveryReceipt.Event
        let at: Date
        /// When it is sent next.
        var due: Int64
    }

    /// The most callbacks that a platform sends at a time.
    private static let mostCallbacks = 4

    /// The first platform reports some of its messages as delivered and opened: in any order, and some twice.
    func report(_ key: String) {
        guard scheduler.chance(250) else { return }
        let events: [DeliveryReceipt.Event] =
            [
                [.delivered], [.opened], [.delivered, .opened], [.opened, .delivered],
                [.delivered, .delivered, .opened],
            ][
                scheduler.draw(below: 5)
            ]
        for event in events {
            let due = scheduler.now + Int64(scheduler.draw(below: 3_000)) * 1_000_000
            callbacks.append(Callback(key: key, event: event, at: scheduler.wall, due: due))
        }
    }

    /// Sends the callbacks that are due.
    func sendCallbacks() {
        guard callbacks.contains(where: { $0.due <= scheduler.now }), incarnation?.server != nil else { return }
        let due = callbacks.indices.filter { callbacks[$0].due <= scheduler.now }.prefix(Self.mostCallbacks)
        let sent = due.map { callbacks[$0] }
        for index in due.reversed() { callbacks.remove(at: index) }
        for callback in sent { send(callback) }
    }

    private func send(_ callback: Callback) {
        // A report that comes before the gateway knows that the message was accepted need not be kept.
        let isKnown = oracle.isAccepted(callback.key)
        let body =
            #"{"id":"\#(callback.key)","event":"\#(callback.event.rawValue)","at":"\#(RFC3339.string(callback.at))"}"#
        ask(.POST, "/v1/backends/\(platforms[0].name)/receipts", [], body) { [self] status, answer in
            switch status {
            case 200?: if isKnown { oracle.reported(callback.key, callback.event) }
            case nil, 429?, 503?:
                var again = callback
                again.due = scheduler.now + 1_000_000_000
                callbacks.append(again)
            case let status?: oracle.fail("a receipt is answered with \(status): \(answer.text)")
            }
        }
    }
}
