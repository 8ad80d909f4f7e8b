import ChaparCore
import ChaparOAuth

extension ChabokOptions {
    /// Reads a section; nil after reporting everything that is wrong with it.
    init?(_ section: ConfigSection) {
        let before = section.report.issues.count
        let environment = section.requiredString("environment", "sandbox or production; there is no default").flatMap {
            word -> Environment? in
            let words = Environment.allCases.map(\.rawValue)
            let environment = Suggestion.same(as: word, among: words).flatMap(Environment.init)
            if environment == nil { section.rejectWord("environment", word, words) }
            return environment
        }
        let appID = section.string("app_id")
        if let appID {
            let label = appID.prefix { $0 != "/" }
            if !Self.isHostLabel(label) {
                section.reject(
                    "app_id",
                    "\"\(label)\" is not a host name's label",
                    fix: "The panel's address shows it."
                )
            }
        } else if environment == .production {
            section.missing("app_id", "the app's id, which is part of the address in production")
        }
        let token = section.secret("access_token")
        if section.has("auth") {
            if section.has("access_token") {
                section.reject("access_token", "stands beside auth", fix: "Keep one of the two.")
            }
            section.allow("auth")
        } else if token == nil, !section.has("access_token") {
            section.missing("access_token", "the token of the panel's settings, as \"${CHABOK_TOKEN}\"")
        } else if let token {
            if token.isBlank {
                section.reject("access_token", "is empty")
            } else if !token.reveal().utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) {
                section.reject("access_token", "holds characters that no token has")
            }
        }
        self.init(appID: appID, environment: environment ?? .sandbox, accessToken: token ?? Secret(""))
        readHabits(section)
        readLimits(section)
        base = section.baseURL("base_url") ?? base
        common = CommonBackendOptions(section, readsBase: false, connections: 8, timeout: .seconds(15))
        guard section.report.issues.count == before else { return nil }
    }

    private mutating func readHabits(_ section: ConfigSection) {
        tokenPlacement = section.choice("token_placement", default: .header)
        mechanism = section.choice("default_mechanism", default: .message)
        channel = section.string("default_channel", default: "default")
        if ChabokChannel(channel) == nil {
            section.reject("default_channel", "is not a channel", fix: "Write name, public/name or private/name.")
        }
        appName = section.string("app_name")
        if let own = section.section("fallback") {
            let media = own.choice("media", default: Fallback.Media.sms)
            let delay = own.integer("delay", in: 1...86_400, default: 60)
            fallback = Fallback(media: media, delay: delay, content: own.string("content"))
            own.finish()
        }
        broadcast = BroadcastRule(section)
        isStrict = section.bool("strict", default: false)
        writesEmptyTargetAsText = section.bool("empty_target_as_string", default: false)
        forwardsClicks = section.bool("forward_clicks", default: false)
        readDisplay(section)
        webhookSecret = section.secret("webhook_secret")
        if let webhookSecret, webhookSecret.reveal().utf8.count < 16 {
            section.reject("webhook_secret", "has fewer than 16 characters", fix: "Draw a long one at random.")
        }
    }

    private mutating func readDisplay(_ section: ConfigSection) {
        guard let own = section.section("display") else { return }
        display.isSilent = own.bool("silent", default: false)
        if let channels = own.section("channels") {
            for name in channels.keys {
                if ChabokChannel(name) == nil {
                    channels.reject(name, "is not a channel", fix: "Write name, public/name or private/name.")
                }
                guard let channel = channels.section(name) else { continue }
                display.channels[name] = ChabokChannelSettings(
                    sound: channel.string("sound"),
                    alert: channel.bool("alert", default: true)
                )
                channel.finish()
            }
            channels.finish()
        }
        own.finish()
    }

    private mutating func readLimits(_ section: ConfigSection) {
        resendsAmbiguous = section.bool("resend_ambiguous", default: false)
        maximumAttempts = section.integer("max_attempts", in: 1...10, default: 3)
        requestsPerSecond = section.number("rate_per_second", in: 0.1...10_000, default: 10)
        minimumUserIDLength = section.integer("user_id_min_length", in: 1...64, default: 1)
        probeInterval = section.seconds("probe_interval", in: 0...86_400, default: .seconds(60))
    }

    private static func isHostLabel(_ text: Substring) -> Bool {
        (1...63).contains(text.utf8.count) && text.first != "-" && text.last != "-"
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    }
}
