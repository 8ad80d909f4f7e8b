/// The campaigns and resends that clients asked for, and what they have learned of them.
///
/// The number of a campaign is its place; it is called `c` and that number, in its name and its title. Those with an
/// even number are judged by what platforms got; of those with an odd one deliveries are sent again, under the same
/// title.
struct CampaignModel {
    /// A notification to an audience.
    struct Campaign {
        let number: Int
        let body: String
        let timeToLive: Int
        let hasWaves: Bool
        let postedAt: Int64
        /// Whether a device gets it, by the device's name; devices that may have changed since are left out.
        var expected: [String: Bool]
        /// The number that the gateway gave it; nil until that is known.
        var id: String?
        /// Whether a request that changes it is under way.
        var isBusy = false
        var isAskedToCancel = false
        /// When its cancellation was answered.
        var cancelledAt: Int64?
        /// When a pause was answered, and when the end of that pause was asked for.
        var pauses: [(from: Int64, until: Int64?)] = []
        /// Whether it may go on at any time, since a request had no answer.
        var isPauseDoubtful = false
        // As it was last seen.
        var hasBegun = false
        var isPaused = false
        var progress = 0.0
        var isOver = false
        /// The final states of its deliveries, from the stream of events: by their places.
        var ended: [Int: String] = [:]

        var name: String { "c\(number)" }

        /// Whether deliveries of it are sent again.
        var isSentAgain: Bool { number % 2 == 1 }

        /// Whether it makes deliveries now, as far as clients know.
        var isFanningOut: Bool { id != nil && !isOver && !isPaused && !isAskedToCancel && progress < 1 }
    }

    /// A request to send failed deliveries of a campaign again.
    struct Order {
        let campaign: Int
        let body: String
        /// The places that it names; nil for all of the campaign.
        let places: Set<Int>?
        var isUnderWay = false
        var isAnswered = false
        /// The most deliveries that an answer said were sent again, then or before.
        var claimed = 0
    }

    /// A notification that sends a delivery again.
    struct Resend {
        let campaign: Int
        let place: Int
        var isEnded = false
    }

    /// No more campaigns are begun.
    static let most = 10

    var all: [Campaign] = []
    var orders: [Order] = []
    /// The resends by their ids, from the stream of events.
    var resends: [String: Resend] = [:]
    /// The ids of resends that answers told of, with their campaigns.
    var answered: [String: Int] = [:]
    private var numbers: [String: Int] = [:]

    /// The number of the campaign with a name or title.
    func number(named name: String?) -> Int? {
        guard let name, name.hasPrefix("c"), let number = Int(name.dropFirst()) else { return nil }
        return all.indices.contains(number) ? number : nil
    }

    /// The number of the campaign with an id.
    func number(of id: String) -> Int? { numbers[id] }

    /// Notes the id of a campaign.
    mutating func learn(_ number: Int, _ id: String) {
        all[number].id = id
        numbers[id] = number
    }

    /// Notes that a paused campaign is asked to go on.
    mutating func endPause(_ number: Int, at now: Int64) {
        guard let last = all[number].pauses.indices.last, all[number].pauses[last].until == nil else { return }
        all[number].pauses[last].until = now
    }

    /// Leaves a device that may change out of what is expected of campaigns that go on.
    mutating func forget(_ device: String) {
        for number in all.indices where !all[number].isOver { all[number].expected[device] = nil }
    }

    /// The deliveries of a campaign that were sent again, among some places if they are given.
    func sentAgain(_ campaign: Int, among places: Set<Int>? = nil) -> Int {
        resends.values.count { $0.campaign == campaign && places?.contains($0.place) ?? true }
    }

    /// Whether each campaign is over, and each resend has ended.
    var isSettled: Bool { all.allSatisfy { $0.id == nil || $0.isOver } && resends.values.allSatisfy(\.isEnded) }
}
