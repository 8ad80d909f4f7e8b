import ChaparCore

/// The webhooks of a run: their endpoints, what their receivers got, and the events that there were.
struct WebhookModel {
    /// An endpoint with its receiver.
    struct Endpoint {
        let name: String
        /// The members of the request that adds it, besides the address.
        let settings: String
        /// The types of the log that it gets.
        let types: Set<String>
        var isOrdered = false
        /// Whether it gets nothing: its app has no backend.
        var isForeign = false
        /// The behaviour of its receiver stays healthy.
        var isAlwaysHealthy = false
        /// The number of an event after which it gets all; nil until it is added.
        var since: Int64?
        var isBusy = false
        var behavior = Behavior.healthy
        var requests: [Request] = []
    }

    /// A request, as its receiver got it.
    struct Request {
        let at: Int64
        let id: String
        let items: [Item]
        /// Whether the receiver has decided to answer that it took the message.
        var isTaken = false
    }

    /// An event of a request.
    struct Item: Hashable {
        let number: Int64
        let type: String
        let notification: String
    }

    /// The behaviour of a receiver.
    enum Behavior: CaseIterable {
        case healthy, failing, busy, throttled, slow, hanging
        /// The message is taken, and the answer is lost.
        case losing
        case reset
    }

    /// An event of the log.
    struct Event {
        let type: String
        let notification: String
    }

    /// The types of events that end a delivery.
    private static let ends = ["accepted_by_platform", "failed", "expired", "cancelled", "unknown"].map {
        "delivery." + $0
    }
    private static let deliveries = Set(ends + ["delivery.delivered", "delivery.opened"])
    /// The type of a notification's end, which the log does not have.
    static let finished = "notification.finished"

    var endpoints: [Endpoint] = [
        Endpoint(
            name: "well",
            settings: #""types":["delivery.*","notification.finished"]"#,
            types: deliveries.union([finished]),
            isAlwaysHealthy: true
        ),
        Endpoint(name: "sick", settings: #""types":["delivery.*"]"#, types: deliveries),
        Endpoint(
            name: "order",
            settings: #""types":["delivery.*"],"ordered":true"#,
            types: deliveries,
            isOrdered: true
        ),
        Endpoint(name: "batch", settings: #""types":["delivery.*"],"batch":true"#, types: deliveries),
        Endpoint(
            name: "both",
            settings: #""types":["delivery.*","notification.finished"],"batch":true,"ordered":true"#,
            types: deliveries.union([finished]),
            isOrdered: true
        ),
        Endpoint(
            name: "bad",
            settings: #""types":["delivery.failed","delivery.expired"],"rate":5"#,
            types: ["delivery.failed", "delivery.expired"]
        ),
        Endpoint(
            name: "foreign",
            settings: #""types":["delivery.*","notification.finished"],"app":"other""#,
            types: [],
            isForeign: true
        ),
    ]
    /// The events of the log, by number.
    var log: [Int64: Event] = [:]
    /// The number of the event with which each notification has ended.
    var finishedAt: [String: Int64] = [:]
    /// The times at which something happened that may lead to repeats, besides those of the oracle.
    var disturbances: [Int64] = []

    func index(of name: String) -> Int? { endpoints.firstIndex { $0.name == name } }

    /// The numbers of events that an endpoint lacks, the first ones.
    func missing(_ endpoint: Endpoint) -> [Int64] {
        guard let since = endpoint.since, !endpoint.isForeign else { return [] }
        let taken = Set(endpoint.requests.filter(\.isTaken).flatMap(\.items).map { "\($0.number) \($0.type)" })
        return log.filter { number, event in
            number > since && endpoint.types.contains(event.type) && !taken.contains("\(number) \(event.type)")
        }
        .keys.sorted()
    }

    /// The notifications of which an endpoint was not told that they have ended.
    func unfinished(_ endpoint: Endpoint, of notifications: [String]) -> [String] {
        guard let since = endpoint.since, endpoint.types.contains(Self.finished) else { return [] }
        let items = endpoint.requests.filter(\.isTaken).flatMap(\.items)
        let told = Set(items.filter { $0.type == Self.finished }.map(\.notification))
        return notifications.filter { id in
            finishedAt[id].map { $0 > since } ?? false && !told.contains(id)
        }
    }

    /// What is wrong with the requests that a receiver got; nil when nothing is.
    func complaint(_ endpoint: Endpoint, disturbances: [Int64]) -> String? {
        guard let since = endpoint.since else { return nil }
        if endpoint.isForeign {
            return endpoint.requests.isEmpty ? nil : "got events of another app: \(endpoint.requests[0].items)"
        }
        let wanted = log.filter { $0.key > since && endpoint.types.contains($0.value.type) }.keys.sorted()
        var next = wanted.startIndex
        var taken: [Item: Int64] = [:]
        var ids: [Item: String] = [:]
        for request in endpoint.requests {
            for item in request.items {
                if let wrong = mistake(in: item, endpoint) { return wrong }
                if endpoint.isOrdered, item.type != Self.finished {
                    while next < wanted.endIndex, wanted[next] < item.number,
                        taken.keys.contains(where: { $0.number == wanted[next] })
                            || request.items.contains(where: { $0.number == wanted[next] })
                    { next += 1 }
                    if next < wanted.endIndex, wanted[next] < item.number {
                        return "got event \(item.number) before event \(wanted[next])"
                    }
                }
                if let id = ids.updateValue(request.id, forKey: item), id != request.id {
                    return "got event \(item.number) as \(id) and as \(request.id)"
                }
                if let at = taken[item], item.type != Self.finished,
                    !disturbances.contains(where: { $0 >= at - Self.before && $0 <= at + Self.after })
                {
                    return "got event \(item.number) again, \((request.at - at) / 1_000_000) ms after it took it"
                }
            }
            guard request.isTaken else { continue }
            for item in request.items where taken[item] == nil { taken[item] = request.at }
        }
        return nil
    }

    /// The longest times from a disturbance to the taking of an event that may be repeated for it, and back: the cursor
    /// stays behind a request of 15 seconds, and a lease is 30 seconds long.
    private static let before: Int64 = 45_000_000_000
    private static let after: Int64 = 60_000_000_000

    private func mistake(in item: Item, _ endpoint: Endpoint) -> String? {
        guard endpoint.types.contains(item.type) else { return "got a \(item.type), which it does not want" }
        guard let event = log[item.number] else { return "got event \(item.number), which there is not" }
        if item.type == Self.finished {
            return event.notification == item.notification ? nil : "got the end of \(item.notification) at another's"
        }
        if event.type != item.type { return "got event \(item.number) as \(item.type), not as \(event.type)" }
        return event.notification == item.notification ? nil : "got event \(item.number) of \(item.notification)"
    }
}
