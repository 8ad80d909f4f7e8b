internal import Foundation
internal import ChaparComposition
internal import ChaparDelivery
internal import ChaparCore
internal import ChaparQueue

/// The filter of a search: which deliveries are wanted, and by which index of the store they are found.
///
/// It comes from a query's parameters, or from the field `filter` of a body, under the same names.
struct DeliveryFilter: Sendable {
    /// The names, in the order in which answers list them.
    static let names = [
        "id", "user", "device", "reference", "state", "dead", "app", "backend", "reason", "segment", "collapse_id",
        "key", "since", "until",
    ]
    /// The names whose values are lists.
    private static let lists: Set<String> = ["id", "state", "backend", "reason", "key"]
    /// The most bytes of a value; a longer one matches nothing that is stored.
    private static func mostBytes(_ name: String) -> Int {
        switch name {
        case "reference": NotificationRecord.maximumReferenceBytes
        case "collapse_id": OptionsReader.maximumCollapseIDBytes
        default: 1_024
        }
    }
    /// The most campaigns that one request reads to find those of a segment.
    private static let mostCampaigns = 5_000
    /// The number of campaigns that are read at a time.
    private static let campaignPage = 200
    /// The most values of a list.
    private static let largestList = 100
    /// The names that the store has an index for; `state` and `dead` count when they mean bad ends only.
    private static let indexed = "id, user, device, reference, or state with failed, expired and unknown only"

    private var ids: Set<NotificationID> = []
    /// Of the ids that are campaigns the number below which their deliveries are.
    private var campaignEnds: [NotificationID: Int64] = [:]
    private var user: String?
    private var device: String?
    private var reference: String?
    private var states: Set<DeliveryState> = []
    private(set) var isDead = false
    private var backends: Set<String>?
    private var reasons: Set<String> = []
    private var segment: (name: String, app: AppName)?
    /// The campaigns whose audience names the segment, with the number below which their deliveries are.
    private var segmentEnds: [NotificationID: Int64] = [:]
    /// The campaign below which none was asked for its segments; nil when all that are kept were.
    private(set) var campaignsReadTo: NotificationID?
    private var collapseID: String?
    private var keys: Set<String> = []
    /// The beginning of the span; nil for everything that is kept.
    private(set) var since: Date?
    private var until: Date?
    /// The values as they came, by which the cursor of another query is known.
    private let fingerprint: UInt64

    /// Reads the values of a query's parameters; those of lists are separated by commas.
    init(
        parameters: [String: String],
        beside others: [String],
        of endpoint: String,
        _ scope: RequestScope,
        fixed: [String: String] = [:]
    ) throws(Problem) {
        var values: [String: [String]] = [:]
        var issues = RequestIssues()
        for name in scope.repeatedParameters {
            issues.add("#/\(pointerStep(name))", "repeated", "Give it once; values of a list are divided by commas.")
        }
        for (name, text) in parameters.sorted(by: { $0.key < $1.key }) where !others.contains(name) {
            guard Self.names.contains(name), fixed[name] == nil else {
                let known = Self.names.filter { fixed[$0] == nil } + others
                issues.add("#/\(pointerStep(name))", "unknown_filter", Self.unknown(name, known))
                continue
            }
            values[name] = Self.lists.contains(name) ? text.split(separator: ",").map(String.init) : [text]
        }
        for (name, value) in fixed { values[name] = [value] }
        try self.init(values, "#", of: endpoint, &issues, scope)
    }

    /// Reads the values of a body's member.
    init(
        _ values: [String: [String]],
        _ pointer: String,
        of endpoint: String,
        _ issues: inout RequestIssues,
        _ scope: RequestScope
    ) throws(Problem) {
        var hash = StableHash()
        hash.add(endpoint.utf8)
        for (name, texts) in values.sorted(by: { $0.key < $1.key }) {
            for text in [name] + texts.sorted() {
                hash.addEnd()
                hash.add(text.utf8)
            }
        }
        fingerprint = hash.value
        for name in Self.names { try read(name, values[name], pointer, &issues, scope, values["app"]?.first) }
        guard issues.isEmpty else { throw Problem(issues) }
    }

    static func unknown(_ name: String, _ known: [String]) -> String {
        let hint = didYouMean(name, known).map { "\($0) " } ?? ""
        return "\(hint)The filters are \(known.joined(separator: ", "))."
    }

    private mutating func read(
        _ name: String,
        _ values: [String]?,
        _ pointer: String,
        _ issues: inout RequestIssues,
        _ scope: RequestScope,
        _ appName: String?
    ) throws(Problem) {
        guard let values else { return }
        let place = "\(pointer)/\(name)"
        guard let value = values.first, !values.contains(where: \.isEmpty) else {
            return issues.add(place, "empty", "Give a value, or leave the filter out.")
        }
        guard values.count <= Self.largestList else {
            return issues.add(place, "too_many", "At most \(Self.largestList) values; these are \(values.count).")
        }
        guard values.count == 1 || Self.lists.contains(name) else {
            let known = Self.names.filter(Self.lists.contains).joined(separator: ", ")
            return issues.add(place, "one_value", "Takes one value; lists are for \(known).")
        }
        let most = Self.mostBytes(name)
        guard !values.contains(where: { $0.utf8.count > most }) else {
            return issues.add(place, "too_long", "At most \(most) bytes.")
        }
        switch name {
        case "id":
            for text in values {
                if let id = NotificationID(text) {
                    ids.insert(id)
                } else {
                    issues.add(place, "invalid", "\(text.prefix(32)) is no id of a notification: it has 13 characters.")
                }
            }
        case "user": user = try scope.app(appName, at: "\(pointer)/app").key(value)
        case "device": device = try scope.app(appName, at: "\(pointer)/app").key(value)
        case "reference": reference = value
        case "state":
            for text in values {
                if let state = DeliveryState(rawValue: text) {
                    states.insert(state)
                } else {
                    let known = DeliveryState.allCases.map(\.rawValue)
                    let list = "The states are \(known.joined(separator: ", "))."
                    issues.add(place, "unknown_state", didYouMean(text, known) ?? list)
                }
            }
        case "dead":
            guard ["true", "false"].contains(value) else {
                return issues.add(place, "invalid", "Must be true or false.")
            }
            isDead = value == "true"
        case "app":
            let app = try scope.app(value, at: place)
            restrict(to: Set(scope.gateway.backends(of: app).map(\.name)))
        case "backend": restrict(to: Set(values))
        case "reason": reasons = Set(values)
        case "segment": segment = (value, try scope.app(appName, at: "\(pointer)/app"))
        case "collapse_id": collapseID = value
        case "key": keys = Set(values)
        case "since", "until":
            guard let time = RFC3339.parse(value) else {
                return issues.add(place, "bad_time", "Must be an RFC 3339 time, such as 2026-11-21T08:15:30Z.")
            }
            if name == "since" { since = time } else { until = time }
            if let since, let until, until <= since {
                issues.add("\(pointer)/until", "bad_time", "Must be later than since.")
            }
        default: break
        }
    }

    private mutating func restrict(to names: Set<String>) { backends = backends?.intersection(names) ?? names }

    // MARK: Where it looks

    /// Whether the store has an index for it.
    private var isIndexed: Bool {
        !ids.isEmpty || user != nil || device != nil || reference != nil || isDead
            || !states.isEmpty && states.allSatisfy(\.isDead)
    }

    /// Refuses a filter that would read every delivery that is kept.
    func requireSpan(_ pointer: String = "#") throws(Problem) {
        let hasOther =
            !states.isEmpty || backends != nil || !reasons.isEmpty || segment != nil || collapseID != nil
            || !keys.isEmpty
        guard since == nil, hasOther, !isIndexed else { return }
        var issues = RequestIssues()
        issues.add(
            "\(pointer)/since",
            "since_missing",
            "Give since, the time from which to search: only \(Self.indexed) are found without reading each delivery."
        )
        throw Problem(issues)
    }

    /// The source of the store's search; the rest of the filter is asked of each delivery.
    private var source: SearchLook.Source {
        if let user { return .keys([.user(user)]) }
        if let device { return .keys([.device(device)]) }
        if let reference { return .keys([.reference(reference)]) }
        if !ids.isEmpty { return .all }
        return isDead || !states.isEmpty && states.allSatisfy(\.isDead) ? .dead : .all
    }

    /// Whether it is searched by an index that lacks deliveries from before it was made.
    var usesIndex: Bool { if case .all = source { false } else { true } }

    /// Whether it chooses single deliveries of a notification.
    var choosesDeliveries: Bool {
        user != nil || device != nil || !states.isEmpty || isDead || backends != nil || !reasons.isEmpty
    }

    /// Returns the filter with the spans of the campaigns that it names, by their ids or by a segment: their deliveries
    /// belong to the notifications that windows made, from the campaign's own id until it ended.
    func findingCampaigns(_ store: (any CampaignStore)?) async throws(StoreError) -> DeliveryFilter {
        guard let store else { return self }
        var filter = self
        for id in ids {
            guard let campaign = try await store.campaign(id) else { continue }
            filter.campaignEnds[id] = Self.end(of: campaign)
        }
        guard let segment else { return filter }
        var before: NotificationID?
        for _ in 0..<Self.mostCampaigns / Self.campaignPage {
            let page = try await store.campaigns(before: before, limit: Self.campaignPage)
            for campaign in page where campaign.app == segment.app {
                let named = CampaignTarget(stored: campaign.audience)?.segments ?? []
                if named.contains(segment.name) { filter.segmentEnds[campaign.id] = Self.end(of: campaign) }
            }
            // A page may lack campaigns that cannot be read.
            guard let last = page.last else { return filter }
            before = last.id
        }
        filter.campaignsReadTo = before
        return filter
    }

    /// Returns the number below which the deliveries of a campaign are.
    private static func end(of campaign: Campaign) -> Int64 {
        // The clock of another gateway may be ahead of the one that ended it.
        campaign.endedAt.map { NotificationID(firstAt: $0.addingTimeInterval(3_600)).rawValue } ?? .max
    }

    /// Returns spans that have the same numbers and do not overlap, the highest first.
    private static func merged(_ spans: [(from: Int64, before: Int64)]) -> [(from: Int64, before: Int64)] {
        var merged: [(from: Int64, before: Int64)] = []
        for span in spans.sorted(by: { $0.before > $1.before }) {
            if let last = merged.last, span.before > last.from {
                merged[merged.count - 1].from = min(last.from, span.from)
            } else {
                merged.append(span)
            }
        }
        return merged
    }

    /// The notifications that are searched, each with the number below which its deliveries are; nil for all.
    private var ends: [NotificationID: Int64]? {
        if segment != nil { return segmentEnds.filter { ids.isEmpty || ids.contains($0.key) } }
        guard !ids.isEmpty else { return nil }
        // The deliveries of a notification have the numbers from its own on, and end before those of the next one.
        let most = Int64(NotificationIntake.maximumDeliveries)
        let ends = ids.map { ($0, campaignEnds[$0] ?? $0.rawValue.adding(clamping: most)) }
        return Dictionary(ends) { first, _ in first }
    }

    /// Returns the parts of the store to search, the newest first.
    func looks(_ now: TimeReading, before: Int64?, onePerNotification: Bool) -> [SearchLook] {
        let from = since.map { NotificationID(firstAt: now.steady($0)).rawValue } ?? 0
        let end = min(until.map { NotificationID(firstAt: now.steady($0)).rawValue } ?? .max, before ?? .max)
        var spans = [(from: from, before: end)]
        if let ends {
            spans = ends.map { id, last in (max(from, id.rawValue), min(end, last)) }
            spans = Self.merged(spans.filter { $0.from < $0.before })
        }
        return spans.filter { $0.from < $0.before }.map { span in
            SearchLook(source, from: span.from, before: span.before, onePerNotification: onePerNotification)
        }
    }

    /// Whether a delivery is wanted by the caller, who may see it.
    ///
    /// The costly part, which reads the attempts, comes last.
    func wants(_ found: FoundDelivery, for caller: Caller) -> Bool {
        let delivery = found.delivery
        if !ids.isEmpty, !ids.contains(found.shownID) { return false }
        if segment != nil, found.record.partOf == nil || segmentEnds[found.shownID] == nil { return false }
        if let device, delivery.recipient != .device(device) { return false }
        if let reference, found.record.reference != reference { return false }
        if !states.isEmpty, !states.contains(delivery.state) { return false }
        if let backends, !backends.contains(delivery.backend) { return false }
        if let collapseID, found.collapseID != collapseID { return false }
        if !keys.isEmpty, !keys.contains(found.caller) { return false }
        guard caller.mayFind(sender: found.caller, through: found.record) else { return false }
        if isDead, !delivery.state.isDead || found.isAcknowledged || found.isResent { return false }
        guard isDead || !reasons.isEmpty else { return true }
        let end = DeliveryEnd(delivery)
        if !reasons.isEmpty, !reasons.contains(end.reason ?? "") { return false }
        return !isDead || end.isMendable
    }

    /// The filters in use, for the audit: their values may be users.
    var subject: String {
        var used: [String] = []
        if !ids.isEmpty { used.append("id") }
        if user != nil { used.append("user") }
        if device != nil { used.append("device") }
        if reference != nil { used.append("reference") }
        if isDead { used.append("dead") }
        if !states.isEmpty { used.append("state") }
        if backends != nil { used.append("backend") }
        if !reasons.isEmpty { used.append("reason") }
        if segment != nil { used.append("segment") }
        if collapseID != nil { used.append("collapse_id") }
        if !keys.isEmpty { used.append("key") }
        return used.isEmpty ? "all" : used.joined(separator: ",")
    }

    // MARK: Cursors

    /// Returns the cursor behind which the search continues; `slot` is the time of the next paced delivery.
    func cursor(_ next: Int64, slot: Int64? = nil) -> String {
        let mark = String(fingerprint & 0xFFFF_FFFF_FF, radix: 32)
        let place = NotificationID(rawValue: next).description
        return "\(place)-\(mark)" + (slot.map { "-" + String(max(0, $0), radix: 32) } ?? "")
    }

    /// Reads a cursor that an earlier page of the same query gave.
    func place(of cursor: String?, _ pointer: String = "#") throws(Problem) -> (before: Int64, slot: Int64?)? {
        guard let cursor else { return nil }
        let parts = cursor.split(separator: "-", omittingEmptySubsequences: false)
        var issues = RequestIssues()
        if (2...3).contains(parts.count), let id = NotificationID(parts[0]), UInt64(parts[1], radix: 32) != nil {
            let slot = parts.count == 3 ? Int64(parts[2], radix: 32) : nil
            if self.cursor(id.rawValue, slot: slot) == cursor { return (id.rawValue, slot) }
            issues.add(
                "\(pointer)/cursor",
                "other_query",
                "The cursor is of another query: leave it out, or give the filters of the page that it is from."
            )
        } else {
            issues.add("\(pointer)/cursor", "invalid", "Must be the \"next\" of an earlier page.")
        }
        throw Problem(issues)
    }
}

/// The last attempt of a delivery, or how it ended without one.
struct DeliveryEnd {
    /// Reasons whose cause can be corrected although their ``Refusal/Kind`` is missing or does not say so.
    ///
    /// They are mistakes of the configuration, and a time to live that ended before the message was sent; a resend
    /// gives the message a new one.
    private static let mendable: Set<String> = [
        GatewayReason.notAddressable, GatewayReason.backendGone, GatewayReason.resolverFailed, "backend_dropped",
        Refusal.expired.reason,
    ]

    private let state: DeliveryState
    private let last: JSONValue?
    /// Whether a platform took it, and it waits for a report before another backend takes over.
    private let awaitsReport: Bool

    init(_ delivery: StoredDelivery) {
        state = delivery.state
        awaitsReport = delivery.state == .retrying && AttemptLog.awaitsReport(delivery.attemptLog)
        last = StatusAPI.attempts(in: delivery.attemptLog).last { $0["reason"] != nil || $0["outcome"] == "accepted" }
    }

    /// The reason of the last attempt; nil when it was accepted, or there was none.
    ///
    /// For a delivery that waits for a report it is `awaits_report`, as in its event.
    var reason: String? { awaitsReport ? GatewayReason.awaitsReport : last?["reason"]?.stringValue }
    /// The backend of the last attempt.
    var backend: String? { last?["backend"]?.stringValue }
    /// The kind of the refusal.
    var kind: String? { last?["kind"]?.stringValue }

    /// Whether the cause of a bad end can be corrected, so that sending again makes sense: the account, the platform,
    /// the configuration, a missing answer, or a time to live that ended.
    ///
    /// A dead token stays dead, and a message that the platform finds wrong is refused again.
    var isMendable: Bool {
        switch state {
        case .expired, .unknown: return true
        case .failed:
            if let reason, Self.mendable.contains(reason) { return true }
            return kind == "account" || kind == "platform"
        default: return false
        }
    }

    /// Whether the token was refused.
    var isOfToken: Bool { state == .failed && kind == "token" }
}
