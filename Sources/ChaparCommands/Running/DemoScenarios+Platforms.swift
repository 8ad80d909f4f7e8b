import ChaparComposition
import ChaparCore
import ChaparGateway
import ChaparSandbox

/// Scenarios that reach Android and Huawei phones, and phones that more than one platform can reach.
extension DemoScenario {
    static var otherPlatforms: [DemoScenario] {
        [
            DemoScenario(
                name: "android",
                summary: "one message to 100 Android phones, through Firebase",
                kinds: ["fcm"],
                steps: [
                    .send(
                        request(
                            to: (1...100).map { "demo-android-\($0)" },
                            of: "android-firebase",
                            content: ["title": "Order 42", "body": "is on its way", "data": ["order": "42"]]
                        )
                    )
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "huawei",
                summary: "one message to 100 Huawei phones: one request, an answer for each",
                kinds: ["hms"],
                steps: [
                    .send(
                        request(
                            to: (1...100).map { "demo-huawei-\($0)" },
                            of: "android-huawei",
                            content: hello
                        )
                    )
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "rustore",
                summary: "one message to 100 phones with RuStore, by their own tokens",
                kinds: ["rustore"],
                steps: [
                    .send(
                        request(
                            to: (1...100).map { "demo-rustore-\($0)" },
                            of: "android-rustore",
                            content: hello
                        )
                    )
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "fallback",
                summary: "Google and RuStore are gone from this phone: the message reaches it through Huawei",
                kinds: ["fcm", "rustore", "hms"],
                steps: [
                    .register(
                        device: "demo-phone",
                        [
                            "user": "demo-ali", "platform": "android",
                            "tokens": [
                                "android-firebase": "sim-unregistered-demo", "android-rustore": "sim-dead-demo",
                                "android-huawei": "demo-huawei-phone",
                            ],
                        ]
                    ),
                    .send(request(["devices": ["demo-phone"]], hello)),
                ],
                expected: .way(.acceptedByPlatform, ["android", "rustore", "huawei"])
            ),
            DemoScenario(
                name: "no report",
                summary: "Firebase took it, and a second later no report of its arrival: an SMS service takes over",
                kinds: ["fcm", "http"],
                steps: [
                    .register(
                        device: "demo-codes",
                        [
                            "user": "demo-parisa", "platform": "android",
                            "tokens": ["android-firebase": "demo-codes", "x-service": "+15550001"],
                        ]
                    ),
                    .send(request(["devices": ["demo-codes"]], ["title": "Your code", "body": "4711"])),
                ],
                expected: .way(.acceptedByPlatform, ["android", "service"]),
                route: codes
            ),
            DemoScenario(
                name: "user",
                summary: "one message to a user, who has an iPhone and an Android tablet",
                kinds: ["apns", "fcm"],
                steps: [
                    .register(
                        device: "demo-iphone",
                        ["user": "demo-sara", "platform": "ios", "tokens": ["ios-apns": .string(token("e"))]]
                    ),
                    .register(
                        device: "demo-tablet",
                        ["user": "demo-sara", "platform": "android", "tokens": ["android-firebase": "demo-tablet"]]
                    ),
                    .send(request(["users": ["demo-sara"]], hello)),
                ],
                expected: .state(.acceptedByPlatform, attempts: 1)
            ),
            DemoScenario(
                name: "idpush",
                summary: "a phone that OneSignal cannot reach registers through IDPush, and gets what OneSignal sends",
                kinds: ["idpush", "onesignal"],
                steps: [
                    .register(
                        device: "demo-idpush",
                        [
                            "user": "demo-mina", "platform": "ios", "locale": "fa-IR", "tags": ["city:tehran"],
                            "tokens": ["ios-apns": .string(token("f"))],
                        ]
                    ),
                    .await(device: "demo-idpush"),
                    .send(request(["devices": ["demo-idpush"]], hello, backend: "idpush")),
                ],
                expected: .way(.acceptedByPlatform, ["idpush"])
            ),
            DemoScenario(
                name: "segment",
                summary:
                    "everybody in a segment of OneSignal: one request, whose access token has to be refreshed first",
                kinds: ["onesignal"],
                steps: [
                    .register(
                        device: "demo-segment",
                        ["platform": "ios", "tokens": ["ios-apns": .string(token("10"))]]
                    ),
                    .await(device: "demo-segment"),
                    .send(request(["topic": "Subscribed Users"], hello, backend: "partner")),
                ],
                expected: .way(.acceptedByPlatform, ["partner"])
            ),
            DemoScenario(
                name: "chabok",
                summary: "a message to a user of Chabok, and the tap on it comes back",
                kinds: ["chabok"],
                steps: [
                    .register(
                        device: "demo-chabok",
                        ["user": "demo-neda", "platform": "ios", "tokens": ["ios-apns": .string(token("11"))]]
                    ),
                    .await(device: "demo-chabok"),
                    .send(
                        request(
                            ["users": ["demo-neda"]],
                            ["title": "Parcel 7781", "body": "Left Tabriz"],
                            backend: "chabok"
                        )
                    ),
                    .click(backend: "chabok", device: "demo-chabok"),
                ],
                expected: .state(.opened, reason: "opened", attempts: 2)
            ),
        ]
    }
}

extension DemoScenario {
    /// The route of phones with a number: the service takes over when the app reported no arrival within a second.
    private static var codes: GatewayConfiguration.Route {
        var plan = DeliveryPlan(["android", "service"])
        plan.escalation = Escalation(step: 1, after: .seconds(1))
        return GatewayConfiguration.Route(name: "codes", service: TokenService(rawValue: "x-service"), plan: plan)
    }

    /// Returns a scenario with a user of two browsers.
    static func browsers(_ simulator: WebPushSimulator) -> DemoScenario {
        func browser(_ device: String, _ id: String, _ service: WebPushService) -> Step {
            let token = simulator.subscription(id, at: service)
            return .register(
                device: device,
                ["user": "demo-omid", "platform": "web", "tokens": ["web-push": .string(token)]]
            )
        }
        return DemoScenario(
            name: "browser",
            summary: "one message to a user's Firefox and Safari, encrypted for each",
            kinds: ["webpush"],
            steps: [
                browser("demo-firefox", "demo-firefox", .mozilla), browser("demo-safari", "demo-safari", .apple),
                .send(
                    request(
                        ["users": ["demo-omid"]],
                        ["title": "Parcel 7781", "body": "Out for delivery", "click_url": "https://example.com/7781"]
                    )
                ),
            ],
            expected: .state(.acceptedByPlatform, attempts: 1)
        )
    }

    /// Returns a scenario with a message through a platform of the program's own; nil when a request cannot name its
    /// recipient.
    static func of(_ service: any SimulatedService) -> DemoScenario? {
        guard let audience = audience(service.recipient) else { return nil }
        let name = service.kind.rawValue
        return DemoScenario(
            name: name,
            summary: "a message through the program's own platform",
            kinds: [service.kind],
            steps: [.send(request(audience, hello, backend: name))],
            expected: .state(.acceptedByPlatform, attempts: 1)
        )
    }

    /// Returns `to` of a request for a recipient; nil for a recipient that only a registry knows.
    static func audience(_ recipient: Recipient) -> JSONObject? {
        switch recipient {
        case .token(let token):
            ["tokens": [["token": .string(token.value), "service": .string(token.service.rawValue)]]]
        case .user(let user): ["users": [.string(user)]]
        case .platformID(let id): ["platform_ids": [.string(id)]]
        case .topic(let topic): ["topic": .string(topic)]
        case .everyone: ["everyone": true]
        case .device, .tags: nil
        }
    }

    /// Returns the flag of `send` for a recipient.
    static func flag(_ recipient: Recipient) -> String {
        switch recipient {
        case .token(let token): "--to \(token.service.rawValue):\(token.value)"
        case .platformID(let id): "--platform-id \(id)"
        case .topic(let topic): "--topic \(topic)"
        default: "--input messages.ndjson"
        }
    }
}
