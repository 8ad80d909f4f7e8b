import ChaparCore

/// The actions of a run on a gateway, as numbers: shorter and smaller ones are simpler.
///
/// The first record chooses the conditions of the run (``Conditions``), each other one is an ``Action``. What follows
/// from the scheduler's seed (who runs next, how long a platform takes) is not in it.
struct Script: Equatable {
    /// The numbers of a record.
    static let width = 6

    var schedule: UInt64
    var records: [[UInt32]]
    /// Whether the store is a model of a database that several gateways could share, instead of the embedded one.
    var isOverDatabase = false
    /// Whether beta takes over where alpha, which took a message, reports no arrival.
    var escalates = false
    /// Whether clients have campaigns, and send again what failed of them.
    var hasCampaigns = false
    /// Whether there are webhooks, and over a database a second gateway that shares them.
    var hasWebhooks = false
    /// The conditions of the run.
    var conditions: Conditions {
        Conditions(
            records.first ?? Array(repeating: 0, count: Self.width),
            hasCampaigns: hasCampaigns,
            hasWebhooks: hasWebhooks
        )
    }

    init(schedule: UInt64, records: [[UInt32]]) {
        self.schedule = schedule
        self.records = records
    }

    /// The script of a seed.
    init(
        seed: UInt64,
        actions: Int,
        isOverDatabase: Bool = false,
        escalates: Bool = false,
        hasCampaigns: Bool = false,
        hasWebhooks: Bool = false
    ) {
        self.isOverDatabase = isOverDatabase
        self.escalates = escalates
        self.hasCampaigns = hasCampaigns
        self.hasWebhooks = hasWebhooks
        var draws = SeededGenerator(seed: seed)
        schedule = draws.next()
        records = (0...actions).map { _ in
            (0..<Self.width).map { _ in UInt32(truncatingIfNeeded: draws.next() >> 32) % 4096 }
        }
    }

    /// Reads what ``description`` writes: the schedule, and a line for each record.
    init?(_ text: String) {
        let lines = text.split(separator: "\n").filter { !$0.hasPrefix("#") }
        let words = lines.first?.split(separator: " ") ?? []
        guard words.first == "schedule", let schedule = words.dropFirst().first.flatMap({ UInt64($0) }) else {
            return nil
        }
        isOverDatabase = words.contains("database")
        escalates = words.contains("escalate")
        hasCampaigns = words.contains("campaigns")
        hasWebhooks = words.contains("webhooks")
        self.schedule = schedule
        records = lines.dropFirst().map { line in
            let numbers = line.prefix { $0 != "#" }.split(separator: " ").compactMap { UInt32($0) }
            return numbers + Array(repeating: 0, count: max(0, Self.width - numbers.count))
        }
    }
}

extension Script: CustomStringConvertible {
    var description: String {
        let conditions = conditions
        let lines = records.enumerated().map { index, record in
            let numbers = record.map(String.init).joined(separator: " ")
            return "\(numbers)  # \(index == 0 ? "\(conditions)" : "\(Action(record, conditions))")"
        }
        let kind =
            (isOverDatabase ? " database" : "") + (escalates ? " escalate" : "") + (hasCampaigns ? " campaigns" : "")
            + (hasWebhooks ? " webhooks" : "")
        return (["schedule \(schedule)\(kind)"] + lines).joined(separator: "\n")
    }
}

/// The conditions of a whole run: its faults (a swarm of runs has each with and without the others), and sizes.
struct Conditions: CustomStringConvertible {
    /// The kinds of actions that happen; others become posts.
    let kinds: Set<Action.Kind>
    /// The most messages in flight to a platform.
    let window: Int
    /// Deliveries that the store keeps in memory for each flow.
    let memory: Int
    /// Rows in a commit, about.
    let commit: Int
    /// How often the disk lets other things run, in parts of a thousand.
    let pauses: Int
    /// The fault of the disk while the first store opens, before any action, and the number of its call.
    let firstTrouble: (kind: FirstTrouble, call: Int)?
    /// Whether there are campaigns.
    let hasCampaigns: Bool
    /// Whether there are webhooks.
    let hasWebhooks: Bool

    /// Trouble of a first start.
    enum FirstTrouble: Int {
        case crash, powerLoss, full, failingSync, forgettingSync
    }

    init(_ record: [UInt32], hasCampaigns: Bool, hasWebhooks: Bool) {
        self.hasCampaigns = hasCampaigns
        self.hasWebhooks = hasWebhooks
        let mask = record[0] | record[1] << 12
        kinds = Set(
            Action.Kind.allCases.filter {
                !$0.isFault || mask & (1 << UInt32($0.rawValue - Action.Kind.behavior.rawValue)) != 0
            }
        )
        window = [4, 16, 64][Int(record[2]) % 3]
        memory = [8, 32, 128][Int(record[3]) % 3]
        commit = [1, 10, 100][Int(record[4]) % 3]
        pauses = [0, 100, 400][Int(record[5]) % 3]
        firstTrouble = FirstTrouble(rawValue: Int(record[5]) / 3 % 10).map { ($0, Int(record[4]) / 3 % 50) }
    }

    var description: String {
        "window \(window), memory \(memory), commit \(commit), pauses \(pauses), "
            + (firstTrouble.map { "\($0.kind) at call \($0.call), " } ?? "")
            + kinds.filter(\.isFault).map { "\($0)" }.sorted().joined(separator: " ")
    }
}

/// One thing that clients, platforms, operators or the machine do.
struct Action: CustomStringConvertible {
    /// The action.
    enum Kind: Int, CaseIterable {
        case wait, post, postMany, batch, cancel, device, deviceRemoval, devicePost
        case behavior, crash, powerLoss, restart, clock, reload, reader, disk, burst, cut, erasure
        // With campaigns only.
        case audience, campaign, campaignControl, campaignCrash, resend
        // With webhooks only.
        case webhook, webhookCrash, peer

        /// Whether a run may be without it.
        var isFault: Bool { (Self.behavior.rawValue...Self.erasure.rawValue).contains(rawValue) }
    }

    /// How often each kind is drawn.
    private static let deck: [Kind] =
        [.wait, .wait, .wait, .wait, .post, .post, .post, .post, .postMany, .postMany, .batch, .cancel, .cancel]
        + [
            .behavior, .behavior, .behavior, .behavior, .crash, .powerLoss, .restart, .clock, .reload, .reader, .disk,
            .burst,
        ]
        + [.device, .device, .device, .deviceRemoval, .devicePost, .devicePost, .cut, .cut, .erasure]

    /// That of a run with campaigns.
    private static let deckWithCampaigns: [Kind] =
        deck + [.audience, .audience, .campaign, .campaign, .campaign]
        + [.campaignControl, .campaignControl, .campaignControl, .campaignControl, .campaignControl, .campaignControl]
        + [.campaignControl, .campaignControl, .campaignCrash, .campaignCrash, .campaignCrash]
        + [.resend, .resend, .resend, .resend]

    /// What a run with webhooks has besides.
    private static let webhooks: [Kind] =
        Array(repeating: .webhook, count: 12) + Array(repeating: .webhookCrash, count: 4)
        + Array(repeating: .peer, count: 6)

    let kind: Kind
    let numbers: [Int]

    init(_ record: [UInt32], _ conditions: Conditions) {
        let deck =
            (conditions.hasCampaigns ? Self.deckWithCampaigns : Self.deck)
            + (conditions.hasWebhooks ? Self.webhooks : [])
        let drawn = deck[Int(record[0]) % deck.count]
        kind = conditions.kinds.contains(drawn) ? drawn : .post
        numbers = record.dropFirst().map(Int.init)
    }

    var description: String { "\(kind) \(numbers.map(String.init).joined(separator: " "))" }
}
