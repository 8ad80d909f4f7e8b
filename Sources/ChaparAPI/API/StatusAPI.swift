internal import Foundation
internal import HTTPTypes
package import Hummingbird
internal import ChaparDelivery
package import ChaparCore
package import ChaparQueue
internal import Synchronization

/// `GET` and `DELETE /v1/notifications/{id}`, `GET …/deliveries` and `DELETE /v1/notifications?key=`: the status of a
/// notification, its cancellation, and the cancellation of everything that a key has waiting.
///
/// Reads and writes the store; with `platform=true` a cancellation goes on to the platforms (``PlatformCancellation``).
/// A caller sees the notifications of the senders that ``Caller/maySee(sender:)`` names.
package struct StatusAPI: Sendable {
    private static let pageSize = 100
    private static let largestPage = 1000
    /// The longest time that one request cancels the waiting deliveries of a key, in seconds; the caller repeats the
    /// request for the rest.
    private static let longestCancellation: TimeInterval = 20

    let endpoint: SyncEndpoint

    /// Creates the endpoints, which read the store of `endpoint` and call platforms through it.
    package init(endpoint: SyncEndpoint) {
        self.endpoint = endpoint
    }

    private var state: GatewayState { endpoint.state }
    /// The endpoints that only notifications to an audience have.
    private var campaigns: CampaignsAPI { CampaignsAPI(endpoint: endpoint) }

    /// Answers with a notification and its number of deliveries in each state.
    package func show(_ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters([])
        guard let stored = try await findUnlessCampaign(id, scope) else {
            if let campaign = try await campaigns.find(try Self.id(id), scope, toRead: true) {
                return try await campaigns.show(campaign, scope)
            }
            throw Self.unknown(id)
        }
        let now = state.clock.reading
        let showsContent = scope.caller.mayRead(contentsOf: stored.caller)
        return Response.json { Self.write(stored, at: now, showsContent: showsContent, to: &$0) }
    }

    /// Writes the members of a notification into an object that the caller has begun.
    static func write(
        _ stored: StoredNotification,
        at now: TimeReading,
        showsContent: Bool,
        to writer: inout JSONWriter
    ) {
        writer.field("id", stored.id.description)
        writer.field("status", DeliveryState.summary(of: stored.counts).rawValue)
        writer.counts("counts", stored.counts)
        writer.field("recipients", stored.counts.values.reduce(0, +))
        writer.name("created_at")
        RFC3339.write(now.wall(stored.acceptedAt), to: &writer)
        if let dueAt = stored.dueAt {
            writer.name("send_at")
            RFC3339.write(now.wall(dueAt), to: &writer)
        }
        writer.name("expires_at")
        RFC3339.write(now.wall(stored.expiresAt), to: &writer)
        if !stored.caller.isEmpty {
            writer.field("caller", stored.caller)
        }
        DeliveryWriter.write(stored.record, showsContent: showsContent, to: &writer)
        guard showsContent else { return }
        writer.name("notification")
        writer.raw(stored.content)
    }

    /// Answers with the attempt log of each recipient, one page at a time.
    package func deliveries(_ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["cursor", "limit", "state"])
        let states = try Self.states(scope.parameter("state"))
        let limit = try scope.number("limit", in: 1...Self.largestPage, default: Self.pageSize)
        let after = try scope.cursor { NotificationID($0)?.rawValue }
        let notification = try Self.id(id)
        let (record, caller, page, next) = try await page(
            of: id,
            notification,
            after: after,
            limit: limit,
            states,
            scope
        )
        let shown = DeliveryWriter(state, scope.caller)
        let showsContent = scope.caller.mayRead(contentsOf: caller)
        return Response.json(capacity: 512 * page.count + 64) { writer in
            DeliveryWriter.write(record, showsContent: showsContent, to: &writer)
            writer.name("items")
            writer.beginArray()
            for one in page { shown.write(one.delivery, place: one.place, to: &writer) }
            writer.endArray()
            writer.name("next")
            if let next {
                writer.string(NotificationID(rawValue: next).description)
            } else {
                writer.null()
            }
        }
    }

    /// Returns a page of a notification's deliveries, of at most 1,000, as the endpoint does.
    package func page(
        of id: NotificationID,
        after: Int64?,
        limit: Int,
        _ scope: RequestScope
    ) async throws(Problem) -> (deliveries: [StoredDelivery], hasMore: Bool) {
        let limit = min(limit, Self.largestPage)
        let text = Substring(id.description)
        let (_, _, page, next) = try await page(of: text, id, after: after, limit: limit, nil, scope)
        return (page.map(\.delivery), next != nil)
    }

    /// Reads the states of a query; nil for all.
    private static func states(_ text: String?) throws(Problem) -> Set<DeliveryState>? {
        guard let text else { return nil }
        var states: Set<DeliveryState> = []
        for name in text.split(separator: ",").map(String.init) {
            guard let state = DeliveryState(rawValue: name) else {
                let known = DeliveryState.allCases.map(\.rawValue)
                let list = "the states are \(known.joined(separator: ", "))."
                throw .badParameter("state", didYouMean(name, known) ?? list)
            }
            states.insert(state)
        }
        guard !states.isEmpty else { throw .badParameter("state", "give a value, or leave it out.") }
        return states
    }

    private func page(
        of text: Substring,
        _ id: NotificationID,
        after: Int64?,
        limit: Int,
        _ states: Set<DeliveryState>?,
        _ scope: RequestScope
    ) async throws(Problem) -> (NotificationRecord, caller: String, [CampaignDelivery], next: Int64?) {
        guard let stored = try await findUnlessCampaign(text, scope) else {
            guard let campaign = try await campaigns.find(id, scope, toRead: true) else { throw Self.unknown(text) }
            let (found, next) = try await Self.page(after: after, limit: limit, states) {
                (after, limit) throws(StoreError) in
                try await state.store.deliveries(ofCampaign: id, after: after, limit: limit)
            }
            return (campaign.record, campaign.caller, found, next)
        }
        let (found, next) = try await Self.page(after: after, limit: limit, states) {
            (after, limit) throws(StoreError) in
            try await state.store.deliveries(of: id, after: after, limit: limit).map {
                CampaignDelivery($0, place: id.place(of: $0.id))
            }
        }
        return (stored.record, stored.caller, found, next)
    }

    /// Reads deliveries in parts until a page of those in one of `states` is full, or ``SearchAPI/mostRows`` were read.
    ///
    /// - Parameters:
    ///   - after: The number behind which the page begins.
    ///   - limit: The most deliveries of the page.
    ///   - states: The states; nil for all.
    ///   - read: Returns the next deliveries behind a number, at most a given number of them.
    /// - Returns: The page, and the number behind which the next one begins; nil when there is none.
    /// - Throws: The store's failure.
    private static func page(
        after: Int64?,
        limit: Int,
        _ states: Set<DeliveryState>?,
        _ read: (_ after: Int64?, _ limit: Int) async throws(StoreError) -> [CampaignDelivery]
    ) async throws(Problem) -> ([CampaignDelivery], next: Int64?) {
        var found: [CampaignDelivery] = []
        var (last, rows) = (after, 0)
        do throws(StoreError) {
            while true {
                let size = states == nil ? limit - found.count : largestPage
                var part = try await read(last, size + 1)
                let hasMore = part.count > size
                if hasMore { part.removeLast() }
                for one in part {
                    (last, rows) = (one.delivery.id, rows + 1)
                    if states?.contains(one.delivery.state) ?? true { found.append(one) }
                    if found.count == limit {
                        let isLast = !hasMore && one.delivery.id == part.last?.delivery.id
                        return (found, isLast ? nil : last)
                    }
                }
                guard hasMore, rows < SearchAPI.mostRows else { return (found, hasMore ? last : nil) }
            }
        } catch {
            throw Problem(error)
        }
    }

    /// Cancels deliveries that were not sent; with `platform=true` also asks platforms to withdraw accepted messages.
    package func cancel(_ id: Substring, _ scope: RequestScope) async throws(Problem) -> Response {
        try scope.allowParameters(["platform", "dry_run"])
        let (includesPlatforms, isDryRun) = (try scope.flag("platform"), try scope.flag("dry_run"))
        let notification = try Self.id(id)
        let (result, platforms) =
            isDryRun
            ? (try await cancellation(of: id, notification, includesPlatforms, scope), nil)
            : try await cancel(id, notification, includesPlatforms, scope)
        return Response.json { writer in
            writer.field("id", notification.description)
            writer.field("cancelled", result.cancelled)
            writer.field("too_late", result.tooLate)
            writer.field("in_flight", result.inFlight)
            writer.mark(dryRun: isDryRun)
            guard let platforms else { return }
            writer.name("platform")
            platforms.write(to: &writer)
        }
    }

    /// Cancels deliveries, as the endpoint does.
    ///
    /// The second result has the answers of platforms; nil unless the request asks platforms.
    package func cancel(
        _ id: NotificationID,
        onPlatforms: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> (Cancellation, PlatformCancellation.Tally?) {
        try await cancel(Substring(id.description), id, onPlatforms, scope)
    }

    private func cancel(
        _ text: Substring,
        _ notification: NotificationID,
        _ includesPlatforms: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> (Cancellation, PlatformCancellation.Tally?) {
        if !scope.caller.seesAll, try await findUnlessCampaign(text, scope, isChanged: true) == nil,
            try await campaigns.find(notification, scope) == nil
        {
            throw Self.unknown(text)
        }
        let result: Cancellation?
        do throws(StoreError) {
            result = try await state.store.cancel(notification) { [time = state.time] claim, end in
                EventJSON.delivery(claim, state: end, at: time.now, reason: "cancelled_by_caller")
            }
        } catch {
            throw Problem(error)
        }
        guard let result else {
            guard let campaign = try await campaigns.find(notification, scope) else { throw Self.unknown(text) }
            guard !includesPlatforms else {
                throw Self.needsPlatformIDs
            }
            return (try await campaigns.cancel(campaign), nil)
        }
        guard includesPlatforms else { return (result, nil) }
        return (result, try await PlatformCancellation(endpoint: endpoint, scope).run(notification))
    }

    /// Returns what a cancellation would find now, and changes nothing.
    private func cancellation(
        of text: Substring,
        _ id: NotificationID,
        _ includesPlatforms: Bool,
        _ scope: RequestScope
    ) async throws(Problem) -> Cancellation {
        if let stored = try await findUnlessCampaign(text, scope, isChanged: true) {
            return Cancellation(foreseen: stored.counts)
        }
        guard let campaign = try await campaigns.find(id, scope) else { throw Self.unknown(text) }
        guard !includesPlatforms else { throw Self.needsPlatformIDs }
        do throws(StoreError) {
            return Cancellation(foreseen: try await state.store.abilities.campaigns?.counts(of: campaign.id) ?? [:])
        } catch {
            throw Problem(error)
        }
    }

    private static let needsPlatformIDs = Problem.badParameter(
        "platform",
        "needs the platforms' ids, which an audience's deliveries do not keep."
    )

    /// Answers with the number of a key's deliveries that a cancellation of all of them would end now.
    ///
    /// The number of waiting deliveries is exact if the store counts by sender. Deliveries that are being sent are
    /// searched for among the newest ``SearchAPI/mostRows``.
    private func foresee(cancellationOf key: String) async throws(Problem) -> Response {
        guard let search = state.search else { throw .notFound("The store of this gateway cannot search.") }
        let found = Mutex<(waiting: Int, inFlight: Int)>((0, 0))
        let waiting: Int
        let isComplete: Bool
        do throws(StoreError) {
            let look = SearchLook(from: 0, before: .max, limit: .max, rows: SearchAPI.mostRows)
            let page = try await search.search(look) { one in
                guard one.caller == key, !one.delivery.state.isFinal else { return false }
                let isSent = one.delivery.state == .sending
                found.withLock { isSent ? ($0.inFlight += 1) : ($0.waiting += 1) }
                return false
            }
            isComplete = page.next == nil
            let depths = try await state.store.depthsBySender()
            waiting = depths.map { $0[key]?.waiting ?? 0 } ?? found.withLock { $0.waiting }
        } catch {
            throw Problem(error)
        }
        let inFlight = found.withLock { $0.inFlight }
        return Response.json { writer in
            writer.field("key", key)
            writer.field("cancelled", waiting)
            writer.field("in_flight", inFlight)
            writer.field("complete", isComplete)
            writer.mark(dryRun: true)
        }
    }

    /// Cancels the waiting deliveries of a key's notifications, in parts, for a bounded time.
    package func cancelAll(_ scope: RequestScope) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        try scope.allowParameters(["key", "dry_run"])
        let key = try Self.keyName(scope.parameter("key"))
        guard scope.caller.maySee(sender: key) else {
            throw .keyNotAllowed(isAdministrator: scope.caller.isAdministrator)
        }
        if try scope.flag("dry_run") {
            var response = try await foresee(cancellationOf: key)
            response.headers[.auditSubject] = key.isEmpty ? nil : key
            return response
        }
        do throws(StoreError) {
            try await campaigns.endAll(of: key)
        } catch {
            throw Problem(error)
        }
        let end = state.time.steady + Self.longestCancellation
        var total = CallerCancellation(cancelled: 0)
        repeat {
            do throws(StoreError) {
                let part = try await state.store.cancel(caller: key, from: total.next) {
                    [time = state.time] claim, end in
                    EventJSON.delivery(claim, state: end, at: time.now, reason: "cancelled_by_caller")
                }
                total.cancelled += part.cancelled
                total.inFlight += part.inFlight
                total.next = part.next
            } catch {
                throw Problem(error)
            }
        } while total.next != nil && state.time.steady < end
        let (result, isComplete) = (total, total.next == nil)
        var response = Response.json(isComplete ? .ok : .accepted) { writer in
            writer.field("key", key)
            writer.field("cancelled", result.cancelled)
            writer.field("in_flight", result.inFlight)
            writer.field("complete", isComplete)
        }
        response.headers[.auditSubject] = key.isEmpty ? nil : key
        return response
    }

    /// Returns the key name of a query; the empty name stands for notifications that were sent without a key.
    private static func keyName(_ text: String?) throws(Problem) -> String {
        var issues = RequestIssues()
        if let text {
            if text.isEmpty || BackendRegistry.isName(text) { return text }
            issues.add("#/key", "invalid", "A key's name has letters, digits, - and _, at most 64.")
        } else {
            issues.add("#/key", "missing", "Name the API key whose messages are to be cancelled: ?key=NAME.")
        }
        throw Problem(issues)
    }

    /// Returns a notification that the caller may see and that is not to an audience.
    ///
    /// Nil when there is none; a notification of another sender is treated as unknown. A notification that only
    /// `read_all` finds may be read, not changed.
    private func findUnlessCampaign(
        _ text: Substring,
        _ scope: RequestScope,
        isChanged: Bool = false
    ) async throws(Problem) -> StoredNotification? {
        let id = try Self.id(text)
        do throws(StoreError) {
            guard let stored = try await state.store.notification(id),
                isChanged
                    ? scope.caller.maySee(sender: stored.caller)
                    : scope.caller.mayFind(sender: stored.caller, through: stored.record)
            else {
                return nil
            }
            return stored
        } catch {
            throw Problem(error)
        }
    }

    /// Reads an id; text that is no id is reported like the id of an unknown notification.
    private static func id(_ text: Substring) throws(Problem) -> NotificationID {
        guard let id = NotificationID(text) else { throw unknown(text) }
        return id
    }

    private static func unknown(_ id: Substring) -> Problem {
        .notFound(
            "There is no notification \(id.prefix(32)), it is older than store.retention, or it was erased with its user."
        )
    }

    /// Returns the platform's id of the message, from the last attempt that has one.
    package static func platformID(in attemptLog: [UInt8]) -> String? {
        attempts(in: attemptLog).reversed().lazy.compactMap { $0["platform_id"]?.stringValue }.first
    }

    /// Returns the attempts of a delivery, oldest first.
    package static func attempts(in attemptLog: [UInt8]) -> [JSONValue] {
        guard !attemptLog.isEmpty else { return [] }
        let array = [UInt8(ascii: "[")] + attemptLog + [UInt8(ascii: "]")]
        return (try? JSONValue(parsing: array))?.arrayValue ?? []
    }
}

extension Cancellation {
    /// Makes the result that a cancellation would have, of the numbers of deliveries in each state.
    fileprivate init(foreseen counts: [DeliveryState: Int]) {
        let over = counts.filter(\.key.isFinal).values.reduce(0, +)
        let inFlight = counts[.sending] ?? 0
        self.init(cancelled: counts.values.reduce(0, +) - over - inFlight, tooLate: over, inFlight: inFlight)
    }
}

extension JSONWriter {
    /// Says in the answer to a dry run that nothing was changed.
    mutating func mark(dryRun: Bool) { if dryRun { field("dry_run", true) } }

    /// Writes the numbers of deliveries, or of notifications, in each state that has some.
    mutating func counts(_ member: StaticString, _ counts: [DeliveryState: Int]) {
        name(member)
        beginObject()
        for state in DeliveryState.allCases {
            guard let count = counts[state], count > 0 else { continue }
            name(state.rawValue)
            integer(count)
        }
        endObject()
    }
}

extension DeliveryState {
    /// Summarizes many deliveries in one state: one that still goes on, or else the best final state that any reached.
    static func summary(of counts: [DeliveryState: Int]) -> DeliveryState {
        let order: [DeliveryState] = [
            .sending, .retrying, .queued, .scheduled, .opened, .delivered, .acceptedByPlatform, .unknown, .failed,
            .expired, .cancelled,
        ]
        return order.first { (counts[$0] ?? 0) > 0 } ?? .queued
    }
}
