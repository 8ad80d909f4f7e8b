import ArgumentParser
import ChaparCore

/// The flags of a message to an audience: its name, its pace and what is kept of it.
struct CampaignFlags: ParsableArguments {
    @Option(name: .customLong("name"), help: "The campaign's name, by which people find it.")
    var name: String?

    @OptionGroup var pace: PaceFlags

    @Option(help: "failures, or all: the attempts and events of accepted deliveries too. Default: failures.")
    var keep: Keep?

    @Option(
        name: .customLong("test-device"),
        help: "Only a test: the message goes to this device of the registry, and there is no campaign. Repeat it."
    )
    var testDevices: [String] = []

    /// The part of accepted deliveries that is kept, as an argument.
    enum Keep: String, ExpressibleByArgument, CaseIterable {
        case failures, all
    }

    /// A flag that was given; nil without any.
    var given: String? {
        if name != nil { return "--name" }
        if keep != nil { return "--keep" }
        if !testDevices.isEmpty { return "--test-device" }
        return pace.given
    }

    /// The members of the request.
    var members: JSONObject {
        get throws {
            var members = JSONObject()
            members["name"] = name.map { .string($0) }
            members["keep"] = keep.map { .string($0.rawValue) }
            if pace.given != nil { members["pace"] = pace.json }
            if !testDevices.isEmpty { members["test"] = ["devices": .texts(testDevices)] }
            return members
        }
    }
}

/// The flags of a campaign's pace.
struct PaceFlags: ParsableArguments {
    @Option(name: .customLong("per-minute"), help: "The most deliveries a minute; a fraction is carried on.")
    var perMinute: Double?

    @Option(name: .customLong("over"), help: "Spread it evenly over this many seconds.")
    var over: Int?

    func validate() throws {
        if let perMinute, !(perMinute > 0) { throw ValidationError("--per-minute is a number above 0.") }
        if let over, over < 1 { throw ValidationError("--over is a number of seconds from 1 on.") }
    }

    /// A flag that was given; nil without any.
    var given: String? { perMinute != nil ? "--per-minute" : over != nil ? "--over" : nil }

    /// `pace` of a request.
    var json: JSONValue {
        var pace = JSONObject()
        pace["per_minute"] = perMinute.map { .double($0) }
        pace["over"] = over.map { .integer(Int64($0)) }
        return .object(pace)
    }
}
