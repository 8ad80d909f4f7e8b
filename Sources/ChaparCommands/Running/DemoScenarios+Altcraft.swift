import ChaparCore

/// Scenarios about Altcraft, which keeps the subscriptions of devices and knows who is logged in.
extension DemoScenario {
    static var altcraft: [DemoScenario] {
        [
            DemoScenario(
                name: "log-in",
                summary: "a user logs in and out: the subscription goes to the user's profile and comes back",
                kinds: ["altcraft"],
                steps: [
                    .register(
                        device: "demo-login",
                        ["platform": "ios", "tokens": ["ios-apns": .string(token("11"))]]
                    ),
                    .subscribe(device: "demo-login", backend: "crm"),
                    .logIn("demo-omid", device: "demo-login", backend: "crm"),
                    .await(device: "demo-login"),
                    .logIn("anonymous", device: "demo-login", backend: "crm"),
                    .logIn("demo-omid", device: "demo-login", backend: "crm"),
                ],
                expected: .statuses(["done", "subscribing", "subscribed", "subscribed"])
            ),
            DemoScenario(
                name: "campaign",
                summary: "a message to a user of Altcraft, which starts a campaign and sends it itself",
                kinds: ["altcraft"],
                steps: [
                    .register(
                        device: "demo-campaign",
                        ["user": "demo-laleh", "platform": "ios", "tokens": ["ios-apns": .string(token("12"))]]
                    ),
                    .subscribe(device: "demo-campaign", backend: "crm"),
                    .send(request(["users": ["demo-laleh"]], hello, backend: "crm")),
                ],
                expected: .way(.acceptedByPlatform, ["crm"])
            ),
        ]
    }
}
