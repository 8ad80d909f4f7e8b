internal import Foundation
package import Hummingbird
internal import ChaparComposition
package import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue
internal import Synchronization

/// `POST /v1/deliveries/resend` and `…/acknowledge`: sends failed deliveries again, or removes them from the list of
/// dead letters.
///
/// The list is not a second store: it is a search (``DeliveryFilter``), and two marks on deliveries. A resend is a new
/// notification to one recipient, whose record names the old delivery. Its idempotency key is made from the old
/// delivery. So there is only one resend, however often the request is repeated and whenever the process dies.
package struct DeadLetterAPI: Sendable {
    /// The most deliveries that one request handles.
    private static let mostDeliveries = 1_000
    private static let maximumBody = 64 << 10
    /// The highest place of a delivery: a campaign has more of them than any other notification.
    private static let highestPlace = Int(Int32.max)
    /// The longest time of one request, in seconds; the cursor continues.
    private static let longest: TimeInterval = 20
    /// The caller of the idempotency keys of resends: no API key can have this name.
    private static let keyCaller = "chapar/resend"

    let endpoint: SyncEndpoint
    let metrics: GatewayMetrics

    /// Creates the endpoints; `metrics` count what is accepted.
    package init(endpoint: SyncEndpoint, metrics: GatewayMetrics) {
        self.endpoint = endpoint
        self.metrics = metrics
    }

    private var state: GatewayState { endpoint.state }

    // MARK: Requests

    private enum Field: Int, RequestField {
        case filter, deliveries, options, perMinute, again, undo, dryRun, cursor
        static let names = [
            "filter", "deliveries", "options", "per_minute", "again", "undo", "dry_run", "cursor",
        ]
    }

    private enum OptionField: Int, RequestField {
        case ttl
        static let names = ["ttl"]
    }

    private enum PlaceField: Int, RequestField {
        case notification, delivery
        static let names = ["notification", "delivery"]
    }

    /// A request, read and not yet checked against the configuration.
    private struct Order {
        var filter: [String: [String]]?
        var places: [DeliveryPlace]?
        var timeToLive: Int?
        var perMinute: Int?
        var isAgain = false
        var isUndone = false
        var isDryRun = false
        var cursor: String?
    }

    private func read(_ request: Request, _ scope: RequestScope, resends: Bool) async throws(Problem) -> Order {
        try scope.allowParameters([])
        let order = Mutex(Order())
        try await endpoint.body(of: request, scope, Field.self, limit: Self.maximumBody) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            var read = order.withLock { $0 }
            defer { order.withLock { $0 = read } }
            switch field {
            case .filter: read.filter = try Self.filter(&scanner, &issues)
            case .deliveries: read.places = try Self.places(&scanner, &issues)
            case .options where resends:
                try scanner.fields(OptionField.self, &issues, "#/options") {
                    (scanner, issues, _) throws(JSONSyntaxError) in
                    read.timeToLive = try scanner.integer(
                        in: 1...OptionsReader.maximumTimeToLive,
                        &issues,
                        "#/options/ttl",
                        unit: " seconds"
                    )
                }
            case .perMinute where resends:
                read.perMinute = try scanner.integer(in: 1...1_000_000, &issues, "#/per_minute")
            case .again where resends: read.isAgain = try scanner.flag(&issues, "#/again") ?? false
            case .undo where !resends: read.isUndone = try scanner.flag(&issues, "#/undo") ?? false
            case .dryRun: read.isDryRun = try scanner.flag(&issues, "#/dry_run") ?? false
            case .cursor: read.cursor = try scanner.text(&issues, "#/cursor", limit: 64)
            case .options, .perMinute, .again, .undo:
                let name = Field.names[field.rawValue]
                let other = resends ? "acknowledge" : "resend"
                issues.add("#/\(name)", "unknown_field", "This is a field of \(other).")
                try scanner.skip()
            }
        } check: { issues in
            order.withLock { Self.check($0, resends, &issues) }
        }
        return order.withLock { $0 }
    }

    private static func check(_ order: Order, _ resends: Bool, _ issues: inout RequestIssues) {
        if (order.filter == nil) == (order.places == nil), issues.isEmpty {
            issues.add("#/filter", "selection_missing", "Give either filter or deliveries: what is to be changed.")
        }
        if resends, order.timeToLive == nil, issues.isEmpty {
            issues.add(
                "#/options/ttl",
                "ttl_missing",
                "The old message's own time to live is over: give options.ttl, in seconds."
            )
        }
    }

    private static func filter(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [String: [String]]? {
        guard try scanner.expect(.object, "an object", &issues, "#/filter") else { return nil }
        var values: [String: [String]] = [:]
        try scanner.object { (scanner, name) throws(JSONSyntaxError) in
            guard DeliveryFilter.names.contains(name) else {
                let pointer = "#/filter/\(pointerStep(name))"
                issues.add(pointer, "unknown_filter", DeliveryFilter.unknown(name, DeliveryFilter.names))
                return try scanner.skip()
            }
            var texts: [String] = []
            switch try scanner.peek() {
            case .array:
                try scanner.elements(&issues, "#/filter/\(name)") { (scanner, issues, _) throws(JSONSyntaxError) in
                    if let text = try scanner.text(&issues, "#/filter/\(name)", limit: 1_024) { texts.append(text) }
                }
            case .bool: texts.append(try scanner.bool() ? "true" : "false")
            default:
                if let text = try scanner.text(&issues, "#/filter/\(name)", limit: 1_024) { texts.append(text) }
            }
            values[name] = texts.isEmpty ? [""] : texts
        }
        return values
    }

    private static func places(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> [DeliveryPlace]? {
        var places: [DeliveryPlace] = []
        var count = 0
        let isArray = try scanner.elements(&issues, "#/deliveries") {
            (scanner, issues, index) throws(JSONSyntaxError) in
            let pointer = "#/deliveries/\(index)"
            var (notification, place): (NotificationID?, Int?) = (nil, nil)
            count += 1
            let before = issues.count
            let isObject = try scanner.fields(PlaceField.self, &issues, pointer) {
                (scanner, issues, field) throws(JSONSyntaxError) in
                switch field {
                case .notification:
                    guard let text = try scanner.text(&issues, pointer + "/notification") else { return }
                    notification = NotificationID(text)
                    if notification == nil {
                        issues.add(pointer + "/notification", "invalid", "This is no id of a notification.")
                    }
                case .delivery:
                    place = try scanner.integer(
                        in: 0...Self.highestPlace,
                        &issues,
                        pointer + "/delivery"
                    )
                }
            }
            guard isObject, issues.count == before else { return }
            guard let notification else {
                return issues.add(pointer + "/notification", "missing", "Give the id of the notification.")
            }
            guard let place else {
                return issues.add(pointer + "/delivery", "missing", "Give the index of the delivery, as in a search.")
            }
            places.append(DeliveryPlace(notification: notification, index: place))
        }
        if isArray, !(1...mostDeliveries).contains(count) {
            issues.add("#/deliveries", "invalid", "Name 1 to \(mostDeliveries) deliveries; these are \(count).")
        }
        return isArray ? places : nil
    }

    /// Finds the numbers of campaigns' deliveries, which are those of the notifications that windows made.
    private struct CampaignParts {
        /// The most notifications of a campaign that are looked at; deliveries after them are not found.
        private static let most = 100_000
        private static let page = 1_000

        /// The notifications of a campaign that were read, the first ones in order.
        private struct Known {
            var parts: [StoredPart] = []
            /// Whether no other follows, or ``most`` were read.
            var isWhole = false

            /// The place after their last delivery.
            var end: Int64 { parts.last.map { $0.place.adding(clamping: Int64($0.count)) } ?? 0 }
        }

        private let store: (any CampaignStore)?
        /// The campaigns that were named; nil for an id of another notification.
        private var known: [NotificationID: Known?] = [:]

        init(_ store: (any CampaignStore)?) { self.store = store }

        /// Returns the number of a delivery; nil when the campaign has none at the place.
        mutating func number(of place: DeliveryPlace) async throws(StoreError) -> Int64? {
            let index = Int64(place.index)
            guard let parts = try await parts(of: place.notification, to: index) else { return place.number }
            guard let part = parts.last(where: { $0.place <= index }) else { return nil }
            let offset = index.subtracting(clamping: part.place)
            return offset < Int64(part.count) ? part.id.delivery(at: offset) : nil
        }

        /// Returns the notifications of a campaign, at least to the one that has a place; nil for another id.
        private mutating func parts(of id: NotificationID, to place: Int64) async throws(StoreError) -> [StoredPart]? {
            guard let store, var found = try await campaign(id, in: store) else { return nil }
            while !found.isWhole, found.end <= place {
                let after = found.parts.last.map { $0.id.delivery(at: $0.count - 1) }
                let more = try await store.parts(of: id, after: after, limit: Self.page, onlyOpen: false)
                found.parts += more
                found.isWhole = more.count < Self.page || found.parts.count >= Self.most
            }
            known[id] = found
            return found.parts
        }

        private mutating func campaign(
            _ id: NotificationID,
            in store: any CampaignStore
        ) async throws(StoreError) -> Known? {
            if let known = known[id] { return known }
            let found = try await store.campaign(id).map { _ in Known() }
            known[id] = .some(found)
            return found
        }
    }

    // MARK: The selection

    /// Deliveries that a request means, and where the next one continues.
    private struct Selection {
        var found: [FoundDelivery] = []
        /// The number of named deliveries that the caller cannot see, or that are not kept any more.
        var missing = 0
        var next: Int64?
        var slot: Int64?
        var filter: DeliveryFilter?
    }

    /// Finds the deliveries that a request means: the ones that it names, or a part of those that its filter finds.
    ///
    /// `read_all` finds only deliveries to read. A key may change deliveries of its own messages; an administrator may
    /// change those of every key.
    private func select(_ order: Order, _ name: String, _ scope: RequestScope) async throws(Problem) -> Selection {
        guard let search = state.search else { throw .notFound("The store of this gateway cannot search.") }
        let caller = scope.caller
        var selection = Selection()
        if let places = order.places {
            do throws(StoreError) {
                var parts = CampaignParts(state.store.abilities.campaigns)
                for place in Set(places).sorted(by: { $0.number > $1.number }) {
                    guard let number = try await parts.number(of: place) else {
                        selection.missing += 1
                        continue
                    }
                    let look = SearchLook(from: number, before: number.adding(clamping: 1), limit: 1)
                    let page = try await search.search(look) {
                        $0.shownID == place.notification && caller.maySee(sender: $0.caller)
                    }
                    if page.found.isEmpty { selection.missing += 1 }
                    selection.found += page.found
                }
            } catch {
                throw Problem(error)
            }
            return selection
        }
        var issues = RequestIssues()
        let filter = try DeliveryFilter(order.filter ?? [:], "#/filter", of: name, &issues, scope)
        try filter.requireSpan("#/filter")
        let place = try filter.place(of: order.cursor, "#")
        let searching = SearchAPI(endpoint: endpoint, workers: NoWorkers())
        let page = try await searching.find(
            filter,
            before: place?.before,
            limit: Self.mostDeliveries,
            onePerNotification: false,
            caller
        ) { $0.delivery.state.isDead && caller.maySee(sender: $0.caller) }
        selection.found = page.found
        (selection.next, selection.slot, selection.filter) = (page.next, place?.slot, filter)
        return selection
    }

    // MARK: Acknowledging

    /// Takes bad ends from the view of dead letters, or brings them back.
    package func acknowledge(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        let order = try await read(request, scope, resends: false)
        let selection = try await select(order, "acknowledge", scope)
        let changed = selection.found.filter {
            $0.delivery.state.isDead && $0.isAcknowledged == order.isUndone
        }
        if !order.isDryRun, !changed.isEmpty, let search = state.search {
            do throws(StoreError) {
                try await search.mark(changed.map { DeadMark($0.delivery.id, isAcknowledged: !order.isUndone) })
                let now = state.time.now
                try await state.store.publish(
                    changed.map {
                        EventJSON.handled($0, isAcknowledged: !order.isUndone, by: scope.caller.name, at: now)
                    }
                )
            } catch {
                throw Problem(error)
            }
        }
        let (matched, count) = (selection.found.count, changed.count)
        return audited(selection) { writer in
            writer.field("matched", matched)
            writer.field(order.isUndone ? "brought_back" : "acknowledged", count)
            writer.field("missing", selection.missing)
            writer.field("dry_run", order.isDryRun)
            write(selection, selection.next, nil, to: &writer)
        }
    }

    // MARK: Sending again

    /// The progress of a resend.
    private struct Progress {
        var resent: [NotificationID] = []
        var leftOut: [String: Int] = [:]
        /// The number of resends that may be second copies.
        var copies = 0
        /// The time at which the next paced one is due, steady, in milliseconds.
        var slot: Int64
        /// The number of the last delivery that was handled.
        var last: Int64?

        mutating func leaveOut(_ reason: String) { leftOut[reason, default: 0] += 1 }
    }

    /// Sends bad ends again, as new notifications.
    package func resend(_ request: Request, _ scope: RequestScope) async throws(Problem) -> Response {
        guard !state.isDraining else { throw .draining }
        let order = try await read(request, scope, resends: true)
        let selection = try await select(order, "resend", scope)
        let now = state.time.steady.millisecondsSince1970
        var progress = Progress(slot: max(now, selection.slot ?? 0))
        if selection.missing > 0 { progress.leftOut["missing"] = selection.missing }
        let end = state.time.steady + Self.longest
        var isWhole = true
        for found in selection.found {
            guard state.time.steady < end else {
                isWhole = false
                break
            }
            do throws(StoreError) {
                try await resend(found, order, scope, &progress)
            } catch {
                // Such as a full queue: the answer says what was done, and the cursor where to go on.
                guard !progress.resent.isEmpty else { throw Problem(error) }
                isWhole = false
            }
            guard isWhole else { break }
            progress.last = found.delivery.id
        }
        let next =
            isWhole ? selection.next : progress.last ?? selection.found.first.map { $0.delivery.id.adding(clamping: 1) }
        let (matched, done) = (selection.found.count, progress)
        return audited(selection, order.isDryRun ? .ok : .accepted) { writer in
            writer.field("matched", matched)
            writer.field("resent", done.resent.count)
            writer.name("left_out")
            writer.beginObject()
            for (reason, count) in done.leftOut.sorted(by: { $0.key < $1.key }) {
                writer.name(reason)
                writer.integer(count)
            }
            writer.endObject()
            writer.field("possible_second_copies", done.copies)
            writer.field("dry_run", order.isDryRun)
            writer.name("notifications")
            writer.beginArray()
            if !order.isDryRun { for id in done.resent { writer.string(id.description) } }
            writer.endArray()
            write(selection, next, order.perMinute == nil ? nil : done.slot, to: &writer)
        }
    }

    /// Sends one delivery again, unless a rule leaves it out.
    private func resend(
        _ found: FoundDelivery,
        _ order: Order,
        _ scope: RequestScope,
        _ progress: inout Progress
    ) async throws(StoreError) {
        var user: String?
        if let reason = try await reasonToLeaveOut(found, order, scope, &user) { return progress.leaveOut(reason) }
        let trace = TraceContext(scope.fields)
        guard let (made, interval) = notification(found, order, trace, slot: progress.slot) else {
            return progress.leaveOut("content_unreadable")
        }
        var new = made
        if let user { new.users = [user] }
        let isCopy = found.delivery.state == .unknown
        if order.isDryRun {
            progress.resent.append(new.id)
            progress.copies += isCopy ? 1 : 0
            return
        }
        var batch = EnqueueBatch([new], share: scope.caller.queueShare)
        let name = "\(found.notification)/\(found.place.index)"
        batch.idempotency = IdempotencyEntry(
            caller: Self.keyCaller,
            key: order.isAgain ? "\(name) \(MessageID.random())" : name,
            fingerprint: [1],
            answer: Array(new.id.description.utf8),
            keepUntil: new.acceptedAt + scope.gateway.configuration.store.retention.inSeconds
        )
        let traced = TracedAcceptance(
            "resend notification",
            new.record.trace,
            [(new.id, 1)],
            link: trace?.traceID == new.record.trace?.traceID ? nil : trace,
            state
        )
        switch try await state.store.enqueue(batch) {
        case .accepted:
            traced?.record(state)
            metrics.accepted([AcceptanceLabels(route: "resend", app: app(of: new))])
            progress.resent.append(new.id)
            progress.copies += isCopy ? 1 : 0
            progress.slot = progress.slot.adding(clamping: interval)
        // Only a campaign's commit is outdated, and this batch has none.
        case .replayed, .keyReused, .keyInUse, .outdated: progress.leaveOut("already_resent")
        }
        // After the commit: when the process dies between both, the key still knows that it was sent again.
        try await state.search?.mark([DeadMark(found.delivery.id, isResent: true)])
    }

    private func app(of new: NewNotification) -> AppName {
        new.plan.backends.first.flatMap { state.snapshot.app(ofBackend: $0) } ?? .default
    }

    /// Returns why a delivery is not sent again, nil when it is; then `user` gets the device's user.
    private func reasonToLeaveOut(
        _ found: FoundDelivery,
        _ order: Order,
        _ scope: RequestScope,
        _ user: inout String?
    ) async throws(StoreError) -> String? {
        guard found.delivery.state.isDead else { return "not_failed" }
        if found.isResent, !order.isAgain { return "already_resent" }
        let recipient = found.delivery.recipient
        if recipient.storedForm == Recipient.erasedForm { return "erased_user" }
        let end = DeliveryEnd(found.delivery)
        switch recipient {
        case .device(let id):
            guard let device = try await state.devices.device(id) else { return "erased_user" }
            guard device.tokens.contains(where: \.isAlive) else { return "dead_token" }
            guard try await isOfUser(device, found, order) else { return "other_user" }
            user = device.user
        default: if end.isOfToken { return "dead_token" }
        }
        guard end.isMendable || end.isOfToken else { return "message_refused" }
        let known = Set(scope.gateway.backends.map(\.name))
        return found.plan.backends.allSatisfy(known.contains) ? nil : "backend_gone"
    }

    /// Whether a device still has the user that it had when the old message was accepted.
    ///
    /// The next owner of a device must not get the messages of the one before. That a device which has no user now had
    /// one then is known only when the filter names the user.
    private func isOfUser(
        _ device: Device,
        _ found: FoundDelivery,
        _ order: Order
    ) async throws(StoreError) -> Bool {
        guard let user = device.user else { return order.filter?["user"] == nil }
        let number = found.delivery.id
        guard let search = state.search else { return true }
        let look = SearchLook(
            .keys([.user(user)]),
            from: found.notification.rawValue,
            before: number.adding(clamping: 1),
            limit: 1
        )
        if try await !search.search(look, where: { $0.delivery.id == number }).found.isEmpty { return true }
        // The users of older ones are not known.
        return try await number < search.indexedFrom()
    }

    /// Makes the new notification, and computes the milliseconds until the next one at the pace of the request; nil
    /// when the old content cannot be read.
    private func notification(
        _ found: FoundDelivery,
        _ order: Order,
        _ trace: TraceContext?,
        slot: Int64
    ) -> (NewNotification, interval: Int64)? {
        let reading = state.clock.reading
        let accepted = Date(millisecondsSince1970: reading.steady.millisecondsSince1970)
        let timeToLive = order.timeToLive ?? 1
        guard let content = Self.renewed(found.record.content, timeToLive: timeToLive),
            let notification = try? NotificationContent.decode(content)
        else { return nil }
        let interval = order.perMinute.map { Int64(60_000 / $0) } ?? 0
        let due = Date(millisecondsSince1970: slot)
        let dueAt = order.perMinute != nil && due > accepted ? due : nil
        var record = found.record
        (record.content, record.plans, record.acceptedAt) = (content, [found.plan], accepted)
        // A resend is a message of its own: what its campaign becomes, such as cancelled, is not about it.
        record.partOf = nil
        record.resendOf = DeliveryPlace(notification: found.shownID, index: Int(clamping: found.shownPlace))
        // The new message continues the trace of the message that it repeats; the trace of this request is a link.
        record.trace = found.record.trace?.child(of: found.shownID) ?? state.tracing.context(trace)
        let id = state.store.makeID(recipients: 1)
        let time = reading.wall(accepted)
        var new = NewNotification(
            id: id,
            notification: notification,
            record: record,
            recipients: [found.delivery.recipient],
            caller: found.caller,
            dueAt: dueAt,
            expiresAt: (dueAt ?? accepted) + TimeInterval(timeToLive),
            collapseID: found.collapseID,
            event: EventJSON.accepted(
                id,
                at: time,
                state: dueAt == nil ? .queued : .scheduled,
                recipients: 1,
                record: record,
                title: notification.title?.resolved(for: nil),
                caller: found.caller
            )
        )
        if found.collapseID != nil {
            new.replacementEvent = { claim, state in
                EventJSON.delivery(claim, state: state, at: time, reason: EndReason.replaced.rawValue)
            }
        }
        return (new, interval)
    }

    /// Returns stored content with another time to live, and without a time to send it at.
    static func renewed(_ content: [UInt8], timeToLive: Int) -> [UInt8]? {
        guard var object = (try? JSONValue(parsing: content))?.objectValue else { return nil }
        var options = object["options"]?.objectValue ?? JSONObject()
        options["ttl"] = .integer(Int64(timeToLive))
        options["send_at"] = nil
        object["options"] = .object(options)
        return JSONValue.object(object).bytes
    }

    // MARK: Answers

    private func write(_ selection: Selection, _ next: Int64?, _ slot: Int64?, to writer: inout JSONWriter) {
        writer.name("next")
        if let next, let filter = selection.filter {
            writer.string(filter.cursor(next, slot: slot))
        } else {
            writer.null()
        }
    }

    private func audited(
        _ selection: Selection,
        _ status: HTTPResponse.Status = .ok,
        _ write: (inout JSONWriter) -> Void
    ) -> Response {
        var response = Response.json(status, write)
        response.headers[.auditSubject] = selection.filter?.subject ?? "deliveries"
        return response
    }
}

/// No workers, for a search that does not ask for the condition of backends.
private struct NoWorkers: WorkerObserver {
    let workers: [WorkerStatus] = []
}
