import Foundation
import ChaparCore
import ChaparQueue
import ChaparTesting

/// A registry of devices in two apps, of which each value is known: what a store finds is compared with a plain look at
/// each of them.
struct AudiencePopulation {
    static let tags = ["news", "beta", "muted", "پیک", "é", "e\u{301}"]
    static let userTags = ["gold", "staff", "news"]
    static let platforms = ["ios", "android"]
    static let locales = ["fa", "fa-IR", "en_US", "fab"]
    static let zones = ["Asia/Tehran", "UTC"]
    static let versions = ["4.2", "4.10", "4.2.0", "5", "beta"]
    static let segments = ["vip", "testers"]
    static let shop = AppName(rawValue: "shop")

    private(set) var devices: [Device] = []
    private(set) var users: [String: [String]] = [:]
    private(set) var own: [String: [String]] = [:]

    init(_ count: Int, _ dice: inout Dice) {
        func some(_ list: [String], _ dice: inout Dice) -> [String] {
            list.filter { _ in Int.random(in: 0..<3, using: &dice) == 0 }
        }
        for app in [AppName.default, Self.shop] {
            for number in 0..<20 {
                var labels = some(Self.userTags, &dice).map(AudienceLabel.userTag)
                if Bool.random(using: &dice) { labels.append(AudienceLabel.users("vip", in: app)) }
                if Int.random(in: 0..<4, using: &dice) == 0 {
                    labels.append(AudienceLabel.list("offers", isIn: Bool.random(using: &dice)))
                }
                users[app.key("user-\(number)")] = labels
            }
        }
        for number in 0..<count {
            let app = Int.random(in: 0..<4, using: &dice) == 0 ? Self.shop : .default
            let id = app.key("device-\(number)")
            let service: TokenService = Bool.random(using: &dice) ? .iOSAPNs : .androidFirebase
            var token = RegisteredToken.sample(id, service)
            if Int.random(in: 0..<6, using: &dice) == 0 {
                token.tombstone = Tombstone(asOf: .second(5), at: .second(5), backend: "ios", reason: "Unregistered")
            }
            func maybe(_ list: [String], _ dice: inout Dice) -> String? {
                Bool.random(using: &dice) ? list.randomElement(using: &dice) : nil
            }
            devices.append(
                Device(
                    id: id,
                    user: Bool.random(using: &dice) ? app.key("user-\(Int.random(in: 0..<20, using: &dice))") : nil,
                    platform: maybe(Self.platforms, &dice),
                    tokens: Int.random(in: 0..<8, using: &dice) == 0 ? [] : [token],
                    tags: some(Self.tags, &dice),
                    locale: maybe(Self.locales, &dice),
                    appVersion: maybe(Self.versions, &dice),
                    timeZone: maybe(Self.zones, &dice),
                    createdAt: .second(Double.random(in: 0..<100_000, using: &dice)),
                    lastSeen: Bool.random(using: &dice)
                        ? .second(Double.random(in: 0..<100_000, using: &dice)) : nil
                )
            )
            var labels: [String] = []
            if Int.random(in: 0..<4, using: &dice) == 0 { labels.append(AudienceLabel.devices("testers", in: app)) }
            switch Int.random(in: 0..<12, using: &dice) {
            case 0: labels.append(AudienceLabel.standing(.suspended))
            case 1: labels.append(AudienceLabel.standing(.unsubscribed))
            default: break
            }
            own[id] = labels
        }
    }

    /// Stores the population.
    func fill(_ store: AudienceStoreConformance.Store) async throws {
        for start in stride(from: 0, to: devices.count, by: 100) {
            _ = try await store.put(Array(devices[start..<min(start + 100, devices.count)]))
        }
        let changes =
            users.map { LabelChange(.user($0.key), added: $0.value) }
            + own.map { LabelChange(.device($0.key), added: $0.value) }
        let known = try await store.relabel(changes)
        try expect(known.count, is: changes.count, "subjects that exist")
    }

    /// Looks at each device.
    func evaluate(_ audience: Audience) -> AudienceWalk {
        var walk = AudienceWalk()
        for (index, device) in devices.enumerated() {
            let labels = (device.user.flatMap { users[$0] } ?? []) + (own[device.id] ?? [])
            let subject = AudienceSubject(number: Int64(index + 1), device: device, labels: labels)
            switch audience.verdict(subject) {
            case .unmatched: break
            case .skipped(let cause): walk.skipped[cause, default: 0] += 1
            case .reached: walk.ids.append(device.id)
            }
        }
        return walk
    }

    /// Makes a rule at random.
    static func rule(_ dice: inout Dice, depth: Int = 1) -> AudienceRule {
        let kind = Int.random(in: 0..<(depth < 4 ? 16 : 11), using: &dice)
        func some(_ list: [String]) -> String { list.randomElement(using: &dice) ?? "" }
        switch kind {
        case 0, 1: return .tag(some(tags))
        case 2: return .userTag(some(userTags))
        case 3: return .segment(some(segments))
        case 4: return .platform(some(platforms))
        case 5: return .service(Bool.random(using: &dice) ? "ios-apns" : "android-firebase")
        case 6: return .locale(some(["fa", "FA-ir", "en", "en-US"]))
        case 7: return .zone(some(zones))
        case 8:
            let (low, high) = (some(["4", "4.2", "4.9"]), some(["4.3", "5", "6"]))
            return .version(AudienceRule.VersionBounds(below: high, atLeast: Bool.random(using: &dice) ? low : nil))
        case 9: return .seenWithin(Int64.random(in: 1...100_000, using: &dice))
        case 10: return Bool.random(using: &dice) ? .everyone : .registeredWithin(50_000)
        case 11: return .not(rule(&dice, depth: depth + 1))
        default:
            var rules: [AudienceRule] = []
            for _ in 0..<Int.random(in: 1...3, using: &dice) { rules.append(rule(&dice, depth: depth + 1)) }
            return kind < 14 ? .all(rules) : .any(rules)
        }
    }
}

extension AudienceStoreConformance {
    static let rules: [AudienceStoreConformanceCase] = [
        AudienceStoreConformanceCase("500 random rules find what a plain look at each device finds") { store in
            var dice = Dice(seed: 45)
            let population = AudiencePopulation(240, &dice)
            try await population.fill(store)
            for number in 0..<500 {
                let audience = Audience.sample(
                    AudiencePopulation.rule(&dice),
                    app: number % 4 == 0 ? AudiencePopulation.shop : .default,
                    exclude: number % 3 == 0 ? AudiencePopulation.rule(&dice) : nil,
                    list: number % 5 == 0 ? Audience.List("offers", isDefault: number % 2 == 0) : nil
                )
                let reading = AudienceRule.reading(audience.rule.json, at: "#")
                try expect(reading.mistakes, is: [], "mistakes in the rule \(audience.rule.json.text)")
                try expect(reading.rule, is: audience.rule.canonical, "the rule as it was written and read")
                try expect(Audience(stored: audience.stored), is: audience, "the audience as it is stored")
                let (found, expected) = (
                    try await store.walk(audience, span: 90, limit: number % 7 == 0 ? 13 : 1_000),
                    population.evaluate(audience)
                )
                try expect(found.ids, is: expected.ids, "the devices of \(audience.json.text)")
                try expect(found.skipped, is: expected.skipped, "the skipped ones of \(audience.json.text)")
                var canonical = audience
                canonical.rule = audience.rule.canonical
                try expect(population.evaluate(canonical).ids, is: expected.ids, "the canonical form of \(number)")
            }
        },
        AudienceStoreConformanceCase("A device without the value is in the audience of not, and an exclusion wins") {
            store in
            try await store.put(.sample("a", tags: ["news"]))
            try await store.put(.sample("b"))
            try await store.put(.sample("c", tags: ["news", "muted"]))
            try expect(try await store.walk(.sample(.not(.tag("news")))).ids, is: ["b"], "not news")
            let any = AudienceRule.any([.tag("news"), .everyone])
            let walk = try await store.walk(.sample(any, exclude: .tag("muted")))
            try expect(walk.ids, is: ["a", "b"], "any without the excluded one")
            try expect(walk.skipped, is: [.excluded: 1], "skipped")
        },
    ]
}
