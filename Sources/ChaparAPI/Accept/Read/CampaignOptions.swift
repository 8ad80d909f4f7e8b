internal import ChaparCore
internal import ChaparDelivery
internal import ChaparQueue

/// The members of a request about the campaign of an audience: its name, its pace and what is kept of it.
struct CampaignOptions: Sendable {
    /// The longest name, in bytes.
    static let longestName = 128

    /// The parts that few requests have.
    private struct Rare: Sendable {
        var pace: CampaignPace?
        var test: CampaignTest?
    }

    /// The name; nil without one.
    var name: String?
    @Boxed private var rare: Rare?
    /// The pace; nil for as fast as the platforms take it.
    var pace: CampaignPace? {
        get { rare?.pace }
        set { rare = Rare(pace: newValue, test: rare?.test) }
    }
    /// The devices of a test, to which alone the message goes; nil without one.
    var test: CampaignTest? {
        get { rare?.test }
        set { rare = Rare(pace: rare?.pace, test: newValue) }
    }
    /// Whether attempts and events of accepted deliveries are kept too.
    var keepsAll = false
    /// The last of these fields that the request has; nil without any.
    var field: String?

    private enum Keep: String, CaseIterable {
        case failures, all
    }

    /// Reads `keep`; returns whether everything is kept.
    static func keep(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> Bool {
        guard let word = try scanner.text(&issues, "#/keep") else { return false }
        if let keep = Keep(rawValue: word) { return keep == .all }
        issues.add(
            "#/keep",
            "unknown_word",
            didYouMean(word, Keep.allCases.map(\.rawValue)) ?? "Write failures or all."
        )
        return false
    }
}

/// The devices of `test`: the message of a campaign goes to them alone, and there is no campaign.
struct CampaignTest: Sendable {
    /// The most devices of a test.
    static let mostDevices = 100

    /// The names of the devices, each once.
    private(set) var devices: [String] = []
    /// The position in the request of each.
    private(set) var positions: [Int] = []

    private enum Field: Int, RequestField {
        case devices
        static let names = ["devices"]
    }

    /// Reads the next value, an object.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) -> CampaignTest {
        var test = CampaignTest()
        var hasDevices = false
        let isObject = try scanner.fields(Field.self, &issues, "#/test") {
            (scanner, issues, _) throws(JSONSyntaxError) in
            hasDevices = true
            try test.readDevices(&scanner, &issues)
        }
        if isObject, !hasDevices {
            issues.add("#/test/devices", "missing", "Name the devices that get the test.")
        }
        return test
    }

    private mutating func readDevices(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues
    ) throws(JSONSyntaxError) {
        var count = 0
        let isArray = try scanner.elements(&issues, "#/test/devices") {
            (scanner, issues, index) throws(JSONSyntaxError) in
            count = index + 1
            guard count <= Self.mostDevices else { return try scanner.skip() }
            let name = try scanner.identifier(
                &issues,
                "#/test/devices/\(index)",
                limit: AudienceReader.maximumNameBytes
            )
            guard let name, !devices.contains(where: { ExactText($0) == ExactText(name) }) else { return }
            devices.append(name)
            positions.append(index)
        }
        guard isArray else { return }
        if count == 0 { issues.add("#/test/devices", "audience_empty", "Name at least one device.") }
        if count > Self.mostDevices {
            let detail = "At most \(Self.mostDevices) devices; there are \(count)."
            issues.add("#/test/devices", "too_many_recipients", detail)
        }
    }
}

/// The reader of `pace`: how fast the deliveries of a campaign are made.
enum PaceReader {
    /// The most waves.
    static let mostWaves = 10

    private enum Field: Int, RequestField {
        case perMinute, over, waves, stopAbove
        static let names = ["per_minute", "over", "waves", "stop_above"]
    }

    private enum WaveField: Int, RequestField {
        case percent, wait
        static let names = ["percent", "wait"]
    }

    /// Reads the next value, an object; `pointer` is its place.
    static func read(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> CampaignPace {
        var pace = CampaignPace()
        var hasStop = false
        let before = issues.count
        let isObject = try scanner.fields(Field.self, &issues, pointer) {
            (scanner, issues, field) throws(JSONSyntaxError) in
            switch field {
            case .perMinute:
                pace.perMinute = try number(
                    &scanner,
                    &issues,
                    "\(pointer)/per_minute",
                    above: 0,
                    upTo: CampaignPace.fastest
                )
            case .over:
                let seconds = try scanner.integer(
                    in: 1...Int(CampaignPace.longestSpan),
                    &issues,
                    "\(pointer)/over",
                    unit: " seconds"
                )
                pace.over = seconds.map { Int64($0) }
            case .waves: pace.waves = try waves(&scanner, &issues, "\(pointer)/waves")
            case .stopAbove:
                hasStop = true
                let percent = try number(&scanner, &issues, "\(pointer)/stop_above", above: 0, upTo: 100)
                pace.stopAbove = percent.map { $0 / 100 }
            }
        }
        guard isObject, issues.count == before else { return pace }
        if pace.over != nil, !pace.waves.isEmpty {
            issues.add("\(pointer)/over", "over_and_waves", "Give a span or waves, not both.")
        }
        if hasStop, pace.waves.isEmpty {
            issues.add("\(pointer)/stop_above", "without_waves", "Its share is that of a wave: give waves as well.")
        }
        return pace
    }

    private static func waves(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String
    ) throws(JSONSyntaxError) -> [CampaignPace.Wave] {
        var waves: [CampaignPace.Wave] = []
        var last = 0.0
        try scanner.elements(&issues, pointer) { (scanner, issues, index) throws(JSONSyntaxError) in
            guard index < mostWaves else {
                if index == mostWaves { issues.add(pointer, "too_many_waves", "At most \(mostWaves) waves.") }
                return try scanner.skip()
            }
            var (percent, wait): (Double?, Int?) = (nil, 0)
            let before = issues.count
            let place = "\(pointer)/\(index)"
            let isObject = try scanner.fields(WaveField.self, &issues, place) {
                (scanner, issues, field) throws(JSONSyntaxError) in
                switch field {
                case .percent:
                    percent = try number(&scanner, &issues, "\(place)/percent", above: 0, upTo: 99.99)
                case .wait:
                    wait = try scanner.integer(
                        in: 0...Int(CampaignPace.longestSpan),
                        &issues,
                        "\(place)/wait",
                        unit: " seconds"
                    )
                }
            }
            guard isObject, issues.count == before else { return }
            guard let percent, percent >= last + 0.01 else {
                let detail =
                    "The part of the audience up to this wave, in percent, at least 0.01 above the wave before."
                return issues.add("\(place)/percent", percent == nil ? "missing" : "not_rising", detail)
            }
            last = percent
            waves.append(CampaignPace.Wave(upTo: Int64(clamping: (percent * 100).rounded()), pause: Int64(wait ?? 0)))
        }
        return waves
    }

    /// Reads a number above `lowest` and up to `highest`.
    private static func number(
        _ scanner: inout JSONScanner,
        _ issues: inout RequestIssues,
        _ pointer: String,
        above lowest: Double,
        upTo highest: Double
    ) throws(JSONSyntaxError) -> Double? {
        guard try scanner.expect(.number, "a number", &issues, pointer) else { return nil }
        let value: Double? =
            switch try scanner.number() {
            case .integer(let number): Double(number)
            case .double(let number): number
            default: nil
            }
        guard let value, value > lowest, value <= highest else {
            issues.add(
                pointer,
                "out_of_range",
                "A number above \(Int64(clamping: lowest)), up to \(JSONValue.double(highest).text)."
            )
            return nil
        }
        return value
    }
}
