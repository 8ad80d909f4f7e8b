internal import Foundation
package import Hummingbird
internal import ChaparComposition
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// `GET /v1/notifications?…`, `GET /v1/deliveries?…` and the like: finds messages, the newest first.
///
/// A caller finds messages that were sent with its key; with the scope `read_all` it finds messages of every key
/// through the backends that it may use. Each request reads a bounded number of deliveries. Then its answer has a
/// cursor and the time back to which it has searched.
package struct SearchAPI: Sendable {
    private static let pageSize = 50
    private static let largestPage = 200
    /// The most deliveries that one request reads.
    static let mostRows = 100_000
    /// The deliveries that each search of a part of the store counts as, in addition to those that it reads.
    private static let rowsOfLook = 100
    /// The most groups of an answer with counts.
    private static let mostGroups = 1_000
    /// The number of last messages of a user.
    private static let lastMessages = 20

    let endpoint: SyncEndpoint
    let workers: any WorkerObserver

    /// Creates the endpoints; `workers` say whether the cause of a failure is gone.
    package init(endpoint: SyncEndpoint, workers: any WorkerObserver) {
        self.endpoint = endpoint
        self.workers = workers
    }

    private var state: GatewayState { endpoint.state }

    // MARK: Finding

    /// Answers with a page of notifications that have a delivery as the filter wants.
    package func notifications(_ scope: RequestScope) async throws(Problem) -> Response {
        let filter = try DeliveryFilter(
            parameters: try scope.parameters(),
            beside: ["cursor", "limit"],
            of: "notifications",
            scope
        )
        try filter.requireSpan()
        let campaigns = OnePerCampaign(filter)
        let page = try await page(filter, scope, onePerNotification: true) { campaigns.takes($0) }
        let stored = try await notifications(page.found)
        let now = state.clock.reading
        return audited(filter, scope, capacity: 768 * stored.count) { writer in
            Self.write(stored, at: now, for: scope.caller, to: &writer)
            write(page, of: filter, at: now, to: &writer)
        }
    }

    /// Answers with a page of deliveries.
    package func deliveries(_ scope: RequestScope) async throws(Problem) -> Response {
        try await deliveries(scope, of: "deliveries", fixed: [:])
    }

    /// Answers with a page of the deliveries to a device.
    package func deliveries(toDevice step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try await deliveries(scope, of: "device", fixed: ["device": SyncEndpoint.decoded(step)])
    }

    private func deliveries(
        _ scope: RequestScope,
        of name: String,
        fixed: [String: String]
    ) async throws(Problem) -> Response {
        let filter = try DeliveryFilter(
            parameters: try scope.parameters(),
            beside: ["cursor", "limit"],
            of: name,
            scope,
            fixed: fixed
        )
        try filter.requireSpan()
        let page = try await page(filter, scope, onePerNotification: false)
        let names = try await campaignNames(page.found)
        let (shown, now) = (DeliveryWriter(state, scope.caller), state.clock.reading)
        return audited(filter, scope, capacity: 768 * page.found.count) { writer in
            writer.name("items")
            writer.beginArray()
            for found in page.found {
                let campaign = found.record.partOf.flatMap { names[$0.campaign] }
                shown.write(found, campaign: campaign, for: scope.caller, to: &writer)
            }
            writer.endArray()
            write(page, of: filter, at: now, to: &writer)
        }
    }

    /// Answers with what the registry and the queue have of a user: devices, tags, lists, the last messages.
    package func user(_ step: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["app"])
        let (app, name) = (try scope.app(), try UserSwitchAPI.checked(SyncEndpoint.decoded(step)))
        let devices: [Device]
        var labels: [String] = []
        do throws(StoreError) {
            devices = try await state.devices.devices(ofUsers: [app.key(name)], limit: 1_000)
            if let audiences = state.audiences { labels = try await audiences.labels(ofUser: app.key(name)) }
        } catch {
            throw Problem(ofDevices: error)
        }
        var parameters = ["user": name]
        if let own = scope.parameter("app") { parameters["app"] = own }
        let filter = try DeliveryFilter(parameters: parameters, beside: [], of: "user", scope)
        var page = FoundPage()
        if scope.caller.has(.read) {
            let (most, campaigns) = (Self.lastMessages, OnePerCampaign(filter))
            page = try await find(filter, before: nil, limit: most, onePerNotification: true, scope.caller) {
                campaigns.takes($0)
            }
        }
        guard !devices.isEmpty || !labels.isEmpty || !page.found.isEmpty else {
            throw .notFound("There is no device, no tag and no message of this user that the API key may see.")
        }
        let stored = try await notifications(page.found)
        let now = state.clock.reading
        let tags = Set(devices.flatMap(\.tags)).sorted()
        return audited(filter, scope, capacity: 1_024) { [labels] writer in
            writer.field("user", name)
            writer.field("app", app.rawValue)
            writer.name("devices")
            writer.beginArray()
            for device in devices {
                writer.beginObject()
                device.write(to: &writer, for: scope.caller)
                writer.endObject()
            }
            writer.endArray()
            writer.name("tags")
            writer.beginArray()
            for tag in tags { writer.string(tag) }
            writer.endArray()
            writer.name("user_tags")
            writer.texts(AudiencesAPI.tags(labels))
            AudiencesAPI.write(lists: labels, scope.gateway.configuration, to: &writer)
            writer.name("notifications")
            writer.beginObject()
            Self.write(stored, at: now, for: scope.caller, to: &writer)
            writer.endObject()
        }
    }

    // MARK: Counting

    private struct Group: Hashable {
        var reason: String?
        var backend: String?
        var app: String?
    }

    private struct Tally {
        var count = 0
        var unknown = 0
        var end: DeliveryEnd
        var backend: String
    }

    /// Answers with the number of dead letters, or of what a filter wants, by reason, backend and app.
    package func counts(_ scope: RequestScope) async throws(Problem) -> Response {
        var parameters = try scope.parameters()
        let by = (parameters.removeValue(forKey: "by") ?? "reason,backend,app").split(separator: ",").map(String.init)
        for name in by where !["reason", "backend", "app"].contains(name) {
            var issues = RequestIssues()
            issues.add("#/by", "invalid", "Must be reason, backend and app, or some of them, divided by commas.")
            throw Problem(issues)
        }
        if parameters["state"] == nil, parameters["dead"] == nil { parameters["dead"] = "true" }
        let filter = try DeliveryFilter(parameters: parameters, beside: ["cursor"], of: "counts", scope)
        let apps = Dictionary(state.snapshot.backends.map { ($0.name, $0.app.rawValue) }) { first, _ in first }
        let groups = Mutex<[Group: Tally]>([:])
        let page = try await count(filter, from: parameters["cursor"], scope.caller) { found in
            let end = DeliveryEnd(found.delivery)
            let backend = end.backend ?? found.delivery.backend
            let group = Group(
                reason: by.contains("reason") ? end.reason ?? "" : nil,
                backend: by.contains("backend") ? backend : nil,
                app: by.contains("app") ? apps[backend] ?? "" : nil
            )
            groups.withLock { groups in
                // A platform with endless reasons must not fill the memory.
                let isNew = groups[group] == nil
                let key = isNew && groups.count >= Self.mostGroups ? Group(reason: "other") : group
                groups[key, default: Tally(end: end, backend: backend)].count += 1
                if found.delivery.state == .unknown { groups[key]?.unknown += 1 }
            }
        }
        let (shown, now) = (DeliveryWriter(state, scope.caller), state.clock.reading)
        let health = BackendConditions(state, workers)
        let sorted = groups.withLock { $0 }.sorted {
            ($1.value.count, $0.key.reason ?? "", $0.key.backend ?? "")
                < ($0.value.count, $1.key.reason ?? "", $1.key.backend ?? "")
        }
        return audited(filter, scope, capacity: 256 * sorted.count) { writer in
            writer.name("items")
            writer.beginArray()
            for (group, tally) in sorted {
                writer.beginObject()
                writer.field("reason", group.reason)
                writer.field("backend", group.backend)
                writer.field("app", group.app)
                writer.field("count", tally.count)
                writer.field("unknown", tally.unknown)
                if by.contains("backend") {
                    let cause = health.cause(of: tally.end, at: tally.backend)
                    writer.field("cause", cause.rawValue)
                }
                if by.contains("reason"), let guide = shown.guide(to: tally.end) {
                    writer.name("explanation")
                    shown.write(guide, to: &writer)
                }
                writer.endObject()
            }
            writer.endArray()
            writer.field("total", sorted.reduce(0) { $0 + $1.value.count })
            write(page, of: filter, at: now, to: &writer)
        }
    }

    /// The counts of a search's notifications by state.
    private struct StateTally {
        /// The notifications with a delivery in the state.
        var notifications: [DeliveryState: Set<NotificationID>] = [:]
        var deliveries: [DeliveryState: Int] = [:]

        /// The number of notifications.
        var total: Int { notifications.values.reduce(into: Set<NotificationID>()) { $0.formUnion($1) }.count }

        mutating func add(_ found: FoundDelivery) {
            notifications[found.delivery.state, default: []].insert(found.shownID)
            deliveries[found.delivery.state, default: 0] += 1
        }
    }

    /// Answers with the number of notifications, and of their deliveries, in each state, for the deliveries that a
    /// filter finds.
    ///
    /// One request keeps at most ``mostRows`` ids.
    package func countNotifications(_ scope: RequestScope) async throws(Problem) -> Response {
        let parameters = try scope.parameters()
        let filter = try DeliveryFilter(parameters: parameters, beside: ["cursor"], of: "notification counts", scope)
        let tally = Mutex(StateTally())
        let page = try await count(filter, from: parameters["cursor"], scope.caller) { found in
            tally.withLock { $0.add(found) }
        }
        let (counted, now) = (tally.withLock { $0 }, state.clock.reading)
        return audited(filter, scope, capacity: 256) { writer in
            writer.counts("states", counted.notifications.mapValues(\.count))
            writer.field("notifications", counted.total)
            writer.counts("deliveries", counted.deliveries)
            write(page, of: filter, at: now, to: &writer)
        }
    }

    // MARK: Searching

    /// Passes each delivery that a filter finds, from a cursor on, to a function that counts it, and keeps none in
    /// memory.
    ///
    /// - Throws: A problem, also for a wrong time span of the filter or a wrong cursor.
    private func count(
        _ filter: DeliveryFilter,
        from cursor: String?,
        _ caller: Caller,
        _ body: @escaping @Sendable (FoundDelivery) -> Void
    ) async throws(Problem) -> FoundPage {
        try filter.requireSpan()
        let place = try filter.place(of: cursor)
        return try await find(filter, before: place?.before, limit: .max, onePerNotification: false, caller) { found in
            body(found)
            return false
        }
    }

    /// The deliveries of a page, and how far the search has looked.
    struct FoundPage: Sendable {
        var found: [FoundDelivery] = []
        /// The number below which it continues; nil at the end.
        var next: Int64?
        /// The time until which it has looked back, steady; nil when everything that is kept was searched.
        var lookedBackTo: Date?
    }

    private func page(
        _ filter: DeliveryFilter,
        _ scope: RequestScope,
        onePerNotification: Bool,
        _ isTaken: @escaping @Sendable (FoundDelivery) -> Bool = { _ in true }
    ) async throws(Problem) -> FoundPage {
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: Self.pageSize)
        let place = try filter.place(of: scope.parameter("cursor"))
        return try await find(
            filter,
            before: place?.before,
            limit: limit,
            onePerNotification: onePerNotification,
            scope.caller,
            isTaken
        )
    }

    /// Searches the parts of the store that a filter names until enough are found or enough are read.
    func find(
        _ filter: DeliveryFilter,
        before: Int64?,
        limit: Int,
        onePerNotification: Bool,
        _ caller: Caller,
        _ isTaken: @escaping @Sendable (FoundDelivery) -> Bool = { _ in true }
    ) async throws(Problem) -> FoundPage {
        guard let search = state.search else { throw .notFound("The store of this gateway cannot search.") }
        let now = state.clock.reading
        var page = FoundPage()
        do throws(StoreError) {
            let filter = try await filter.findingCampaigns(state.store.abilities.campaigns)
            let read = Atomic(0)
            var looks = 0
            for var look in filter.looks(now, before: before, onePerNotification: onePerNotification) {
                let rows = Self.mostRows - read.load(ordering: .relaxed) - Self.rowsOfLook * looks
                // The rest is searched from here on.
                guard rows > 0 else {
                    page.next = look.before
                    break
                }
                looks += 1
                look.limit = limit - page.found.count
                look.rows = rows
                let part = try await search.search(look) { found in
                    read.add(1, ordering: .relaxed)
                    return filter.wants(found, for: caller) && isTaken(found)
                }
                page.found += part.found
                page.next = part.next
                if part.next != nil || page.found.count >= limit { break }
            }
            if let next = page.next {
                page.lookedBackTo = NotificationID(rawValue: next).time
            } else {
                page.lookedBackTo = filter.since.map(now.steady)
                if filter.usesIndex {
                    let start = try await search.indexedFrom()
                    let indexed = start > 0 ? NotificationID(rawValue: start).time : nil
                    page.lookedBackTo = [page.lookedBackTo, indexed].compactMap(\.self).max()
                }
                if let last = filter.campaignsReadTo {
                    page.lookedBackTo = [page.lookedBackTo, last.time].compactMap(\.self).max()
                }
            }
        } catch {
            throw Problem(error)
        }
        return page
    }

    /// A notification as an answer lists it.
    private enum Listed: Sendable {
        case notification(StoredNotification)
        /// One to an audience, with the number of its deliveries in each state.
        case campaign(Campaign, [DeliveryState: Int])

        var caller: String {
            switch self {
            case .notification(let stored): stored.caller
            case .campaign(let campaign, _): campaign.caller
            }
        }
    }

    /// Takes one delivery of each campaign: its windows make several notifications, which are one notification for the
    /// sender.
    ///
    /// A filter that does not choose among deliveries finds a campaign by its first delivery. Any other filter finds it
    /// by the newest matching delivery, on each page that has one.
    private final class OnePerCampaign: Sendable {
        private let choosesDeliveries: Bool
        /// The delivery that was taken, by the campaign.
        private let taken = Mutex<[Int64: Int64]>([:])

        init(_ filter: DeliveryFilter) { choosesDeliveries = filter.choosesDeliveries }

        func takes(_ found: FoundDelivery) -> Bool {
            guard let part = found.record.partOf else { return true }
            guard choosesDeliveries || part.first == 0 else { return false }
            return taken.withLock { taken in
                let first = taken[part.campaign] ?? found.delivery.id
                taken[part.campaign] = first
                return first == found.delivery.id
            }
        }
    }

    /// Returns the names of the campaigns of deliveries, by the campaigns' numbers.
    private func campaignNames(_ found: [FoundDelivery]) async throws(Problem) -> [Int64: String] {
        guard let campaigns = state.store.abilities.campaigns else { return [:] }
        var names: [Int64: String] = [:]
        do throws(StoreError) {
            for id in Set(found.compactMap { $0.record.partOf?.campaign }) {
                names[id] = try await campaigns.campaign(NotificationID(rawValue: id))?.name
            }
        } catch {
            throw Problem(error)
        }
        return names
    }

    private func notifications(_ found: [FoundDelivery]) async throws(Problem) -> [Listed] {
        var all: [Listed] = []
        do throws(StoreError) {
            for one in found {
                // One that was erased or purged meanwhile is left out.
                if one.record.partOf != nil {
                    guard let campaigns = state.store.abilities.campaigns,
                        let campaign = try await campaigns.campaign(one.shownID)
                    else { continue }
                    all.append(.campaign(campaign, try await campaigns.counts(of: campaign.id)))
                } else if let stored = try await state.store.notification(one.notification) {
                    all.append(.notification(stored))
                }
            }
        } catch {
            throw Problem(error)
        }
        return all
    }

    // MARK: Writing

    private static func write(
        _ notifications: [Listed],
        at now: TimeReading,
        for caller: Caller,
        to writer: inout JSONWriter
    ) {
        writer.name("items")
        writer.beginArray()
        for listed in notifications {
            let showsContent = caller.mayRead(contentsOf: listed.caller)
            writer.beginObject()
            switch listed {
            case .notification(let stored):
                StatusAPI.write(stored, at: now, showsContent: showsContent, to: &writer)
            case .campaign(let campaign, let counts):
                CampaignsAPI.write(campaign, counts, at: now, showsContent: showsContent, to: &writer)
            }
            writer.endObject()
        }
        writer.endArray()
    }

    private func write(_ page: FoundPage, of filter: DeliveryFilter, at now: TimeReading, to writer: inout JSONWriter) {
        writer.name("next")
        if let next = page.next { writer.string(filter.cursor(next)) } else { writer.null() }
        writer.name("looked_back_to")
        if let time = page.lookedBackTo { RFC3339.write(now.wall(time), to: &writer) } else { writer.null() }
    }

    /// Returns an answer with the subject for the audit: the number of the page's members is no secret, a user is.
    private func audited(
        _ filter: DeliveryFilter,
        _ scope: RequestScope,
        capacity: Int,
        _ write: (inout JSONWriter) -> Void
    ) -> Response {
        var response = Response.json(capacity: capacity + 128, write)
        response.headers[.auditSubject] = filter.subject
        return response
    }
}

/// The conditions of the backends, by which the cause of a failure is gone or still there.
struct BackendConditions {
    /// Whether the cause of a bad end is gone.
    enum Cause: String {
        /// The backend works now.
        case gone
        /// The backend is parked, paused, broken or not configured.
        case there
        /// It is about one message or one token.
        case lasting
    }

    private let workers: [String: WorkerStatus]
    private let state: GatewayState

    init(_ state: GatewayState, _ workers: any WorkerObserver) {
        self.state = state
        self.workers = Dictionary(workers.workers.map { ($0.backend, $0) }) { first, _ in first }
    }

    /// Returns whether the cause of an end at a backend is gone.
    func cause(of end: DeliveryEnd, at name: String) -> Cause {
        guard end.isMendable else { return .lasting }
        guard let backend = state.snapshot.backends.first(where: { $0.name == name }) else { return .there }
        let own = backend.backend.health
        let health = state.outcomes.troubles.health(of: name, workers[name]?.health(own) ?? own)
        let isClosed = workers[name].map { $0.breaker.status == .closed } ?? true
        return health.status == .ok && isClosed ? .gone : .there
    }
}
