import Foundation

/// The requests of ``APITenancyTests`` to each route: the expectation table, in which no route may be missing.
///
/// Paths and bodies have placeholders for names that belong to one key: `$BACKEND` a backend, `$APP` an app, `$ROUTE` a
/// route, `$NOTE` a notification and `$KEY` the name of a key. Each request is right, so that the owner of the names is
/// not refused for its form.
struct TenancyRequests {
    /// One request of a route.
    struct Call {
        var path: String
        var body: String?
        /// Whether a notification that another key of the same app sent may be meant: an app reports what its server
        /// sent.
        var isSharedWithinApp = false
    }

    /// `METHOD pattern` of the route.
    let route: String
    let calls: [Call]

    private init(_ route: String, _ calls: [Call]) { (self.route, self.calls) = (route, calls) }

    /// A route whose one request goes to its path, with what stands in the place of the variable steps.
    private init(_ route: String, _ body: String? = nil, query: String = "") {
        var path = String(route.split(separator: " ")[1])
        if route.contains("/v1/notifications/") { path = path.replacing("{id}", with: "$NOTE") }
        if route.contains("/v1/users/") { path = path.replacing("{id}", with: "planted-user") }
        path = path.replacing("{id}", with: "phone").replacing("{name}", with: "$BACKEND")
        path = path.replacing("{app}", with: "$APP").replacing("{version}", with: "1")
        for step in ["topic", "channel", "secret"] { path = path.replacing("{\(step)}", with: "x") }
        self.init(route, [Call(path: path + query, body: body)])
    }

    static let all: [Self] = notifications + devices + audiences + backends + webhooks + administration + modules

    private static let message = #""to":{"tokens":[{"token":"ab12","service":"ios-apns"}]},"content":{"title":"x"}"#
    /// One message for each way of naming something, and one that names nothing and finds no way.
    private static let messages = [
        #"{\#(message),"backend":"$BACKEND"}"#, #"{\#(message),"route":"$ROUTE"}"#, #"{\#(message),"app":"$APP"}"#,
        #"{"to":{"topic":"news"},"content":{"title":"x"}}"#, #"{"to":{"everyone":true},"content":{"title":"x"}}"#,
        #"{"to":{"tokens":[{"token":"ab12","service":"android-huawei"}]},"content":{"title":"x"}}"#,
        #"{"to":{"devices":["phone"]},"content":{"title":"x"},"backend":"$BACKEND"}"#,
        #"{"to":{"platform_ids":["p"]},"content":{"title":"x"},"route":"$ROUTE"}"#,
    ]

    private static let notifications: [Self] = [
        Self("POST /v1/notifications", messages.map { Call(path: "/v1/notifications", body: $0) }),
        Self(
            "POST /v1/notifications/batch",
            messages.map { Call(path: "/v1/notifications/batch", body: #"{"notifications":[\#($0)]}"#) }
        ),
        Self(
            "DELETE /v1/notifications",
            ["", "&dry_run=true"].map { Call(path: "/v1/notifications?key=$KEY\($0)") }
        ),
        Self("GET /v1/notifications/{id}"),
        Self(
            "DELETE /v1/notifications/{id}",
            ["?dry_run=true", ""].map { Call(path: "/v1/notifications/$NOTE\($0)") }
        ),
        Self(
            "GET /v1/notifications/counts",
            ["?id=$NOTE", "?backend=$BACKEND&since=2020-01-01T00:00:00Z"].map {
                Call(path: "/v1/notifications/counts\($0)")
            }
        ),
        Self("GET /v1/notifications/{id}/deliveries"),
        Self(
            "GET /v1/notifications",
            ["", "?id=$NOTE", "?user=sara&app=$APP", "?backend=$BACKEND&since=2020-01-01T00:00:00Z"].map {
                Call(path: "/v1/notifications\($0)")
            }
        ),
        Self(
            "GET /v1/deliveries",
            ["?id=$NOTE", "?key=$KEY&since=2020-01-01T00:00:00Z", "?dead=true"].map {
                Call(path: "/v1/deliveries\($0)")
            }
        ),
        Self("GET /v1/deliveries/counts", query: "?since=2020-01-01T00:00:00Z"),
        Self(
            "POST /v1/deliveries/resend",
            [#"{"filter":{"id":"$NOTE"},"options":{"ttl":60}}"#, #"{"filter":{"dead":true},"options":{"ttl":60}}"#].map
            {
                Call(path: "/v1/deliveries/resend", body: $0)
            }
        ),
        Self("POST /v1/deliveries/acknowledge", #"{"deliveries":[{"notification":"$NOTE","delivery":0}]}"#),
        Self("PATCH /v1/notifications/{id}", #"{"pace":{}}"#),
        Self("POST /v1/notifications/{id}/pause", "{}"), Self("POST /v1/notifications/{id}/resume", "{}"),
        Self("GET /v1/campaigns"),
        Self("GET /v1/events", query: "?after=0"),
    ]

    private static let devices: [Self] = [
        Self("GET /v1/devices/{id}", [Call(path: "/v1/devices/phone"), Call(path: "/v1/devices/phone?app=$APP")]),
        Self(
            "PUT /v1/devices/{id}",
            [
                Call(path: "/v1/devices/phone", body: #"{"tags":["own"]}"#),
                Call(path: "/v1/devices/phone?app=$APP", body: #"{"tags":["x"]}"#),
            ]
        ),
        Self(
            "PATCH /v1/devices/{id}",
            [
                Call(path: "/v1/devices/phone", body: #"{"tags":["own"]}"#),
                Call(path: "/v1/devices/phone?app=$APP", body: #"{"tags":["x"]}"#),
            ]
        ),
        Self("DELETE /v1/devices/{id}", query: "?app=$APP"),
        Self("GET /v1/devices", [Call(path: "/v1/devices"), Call(path: "/v1/devices?app=$APP")]),
        Self("POST /v1/devices/batch", #"{"devices":[{"id":"new","app":"$APP"}]}"#),
        Self("GET /v1/devices/{id}/deliveries", query: "?app=$APP"), Self("GET /v1/users/{id}", query: "?app=$APP"),
        Self(
            "GET /v1/devices/{id}/subscription",
            ["", "?backend=$BACKEND", "?app=$APP"].map { Call(path: "/v1/devices/phone/subscription\($0)") }
        ),
        Self(
            "PUT /v1/devices/{id}/subscription",
            [
                Call(path: "/v1/devices/phone/subscription", body: #"{"status":"unsubscribed"}"#),
                Call(
                    path: "/v1/devices/phone/subscription",
                    body: #"{"status":"unsubscribed","backend":"$BACKEND","options":{"x":1}}"#
                ), Call(path: "/v1/devices/phone/subscription?app=$APP", body: #"{"status":"unsubscribed"}"#),
            ]
        ),
        Self(
            "PATCH /v1/devices/{id}/tags",
            [
                Call(path: "/v1/devices/phone/tags", body: #"{"tags":{"planted":1}}"#),
                Call(path: "/v1/devices/phone/tags", body: #"{"tags":{"planted":1},"backend":"$BACKEND"}"#),
                Call(path: "/v1/devices/phone/tags?app=$APP", body: #"{"tags":{"planted":1}}"#),
            ]
        ),
        Self(
            "POST /v1/devices/{id}/events",
            [
                Call(
                    path: "/v1/devices/phone/events",
                    body: #"{"event":"opened","payload":{"_crm":"1","_uid":"u-7"}}"#
                ),
                Call(
                    path: "/v1/devices/phone/events",
                    body: #"{"event":"opened","notification":"$NOTE"}"#,
                    isSharedWithinApp: true
                ),
                Call(path: "/v1/devices/phone/events?app=$APP", body: #"{"event":"opened","notification":"$NOTE"}"#),
            ]
        ),
        Self(
            "GET /v1/devices/{id}/operations",
            [Call(path: "/v1/devices/phone/operations"), Call(path: "/v1/devices/phone/operations?app=$APP")]
        ),
        Self(
            "POST /v1/users/{id}/switch",
            [
                Call(path: "/v1/users/sara/switch", body: #"{"device":"phone"}"#),
                Call(path: "/v1/users/sara/switch?app=$APP", body: #"{"device":"phone"}"#),
            ]
        ),
    ]

    /// A route of audiences, asked for the key's own app and for another one.
    private static func audience(_ route: String, _ path: String, _ body: String? = nil) -> Self {
        Self(route, ["", "?app=$APP"].map { Call(path: path + $0, body: body) })
    }

    private static let audiences: [Self] = [
        audience("GET /v1/segments", "/v1/segments"), audience("GET /v1/segments/{name}", "/v1/segments/vip"),
        audience("PUT /v1/segments/{name}", "/v1/segments/vip", #"{"users":["sara"]}"#),
        audience("DELETE /v1/segments/{name}", "/v1/segments/vip"),
        audience("GET /v1/segments/{name}/members", "/v1/segments/vip/members"),
        audience("POST /v1/segments/{name}/members", "/v1/segments/vip/members", #"{"add":["sara"]}"#),
        audience("GET /v1/segments/{name}/count", "/v1/segments/vip/count"),
        audience("POST /v1/audiences/count", "/v1/audiences/count", #"{"audience":{"tag":"planted"}}"#),
        audience("GET /v1/tags", "/v1/tags"),
        audience("GET /v1/users/{id}/lists", "/v1/users/sara/lists"),
        audience("PUT /v1/users/{id}/lists", "/v1/users/sara/lists", #"{"lists":{}}"#),
        audience("GET /v1/users/{id}/tags", "/v1/users/sara/tags"),
        audience("PUT /v1/users/{id}/tags", "/v1/users/sara/tags", #"{"tags":["gold"]}"#),
    ]

    private static let backends: [Self] = [
        Self("GET /v1/backends"),
        Self("POST /v1/backends/{name}/clicks", #"{"user_info":{"id":"m1"}}"#),
        Self(
            "POST /v1/backends/{name}/clear",
            [#"{"device":"phone"}"#, "{}"].map { Call(path: "/v1/backends/$BACKEND/clear", body: $0) }
        ),
        Self(
            "POST /v1/backends/{name}/invalidations",
            [#"{"action":"release","dry_run":true}"#, #"{"action":"release"}"#].map {
                Call(path: "/v1/backends/$BACKEND/invalidations", body: $0)
            }
        ),
        Self(
            "POST /v1/backends/{name}/move",
            [#"{"to":"own-apns","dry_run":true}"#, #"{"to":"own-apns"}"#].map {
                Call(path: "/v1/backends/$BACKEND/move", body: $0)
            }
        ),
        Self(
            "POST /v1/backends/{name}/drop",
            [#"{"dry_run":true}"#, "{}"].map { Call(path: "/v1/backends/$BACKEND/drop", body: $0) }
        ),
        Self("POST /v1/backends/{name}/retry", "{}"), Self("POST /v1/backends/{name}/diagnose", "{}"),
        Self(
            "GET /v1/invalidations",
            [Call(path: "/v1/invalidations"), Call(path: "/v1/invalidations?backend=$BACKEND")]
        ),
        Self("GET /v1/backends/{name}/topics", query: "?device=phone"),
        Self("POST /v1/backends/{name}/topics/lookup", #"{"token":"t1"}"#),
        Self("POST /v1/backends/{name}/topics/{topic}/subscribe", #"{"tokens":["t1"]}"#),
        Self("POST /v1/backends/{name}/topics/{topic}/unsubscribe", #"{"tokens":["t1"]}"#),
        Self("GET /v1/backends/{name}/channels"),
        Self("POST /v1/backends/{name}/channels", #"{"message_storage":"none"}"#),
        Self("GET /v1/backends/{name}/channels/{channel}"), Self("DELETE /v1/backends/{name}/channels/{channel}"),
        Self("POST /v1/backends/{name}/tokens/lookup", #"{"token":"t1"}"#),
        Self("POST /v1/backends/{name}/tokens/import", #"{"tokens":["4f1c"],"application":"com.example.app"}"#),
        Self("POST /v1/backends/{name}/messages/cancel", #"{"ids":["m1"]}"#),
        // The platform's signature or secret decides here, whatever key comes along.
        Self("POST /v1/backends/{name}/receipts", []), Self("POST /v1/backends/{name}/webhook/{secret}", []),
        // The id decides here: the same answer to every id.
        Self("POST /v1/receipts/{id}", []),
        // For keys that may use everything: `APITenancyTests/administrators`.
        Self("POST /v1/receipt-keys/rotate", []),
    ]

    /// The store in memory keeps no webhooks: ``WebhooksAPITests`` has what keys reach of them.
    private static let webhooks: [Self] = [
        "GET /v1/webhooks", "GET /v1/webhooks/{name}", "PUT /v1/webhooks/{name}", "PATCH /v1/webhooks/{name}",
        "DELETE /v1/webhooks/{name}", "GET /v1/webhooks/{name}/attempts", "POST /v1/webhooks/{name}/test",
        "POST /v1/webhooks/{name}/rotate", "POST /v1/webhooks/{name}/recover",
    ].map { Self($0, []) }

    private static let administration: [Self] = [
        Self("GET /v1/keys"), Self("GET /v1/key"),
        Self("GET /v1/series", ["", "?backend=$BACKEND"].map { Call(path: "/v1/series\($0)") }),
        Self("DELETE /v1/users/{id}", query: "?app=$APP"), Self("GET /metrics"),
        Self("GET /healthz"), Self("GET /readyz"), Self("GET /"),
        // The code decides here, whatever key comes along.
        Self("POST /v1/dashboard/session", []),
        // The same for all: it has examples, and nothing of the configuration.
        Self("GET /openapi.json", []),
    ]

    /// The routes of release notes; those that show what is published are open.
    private static let modules: [Self] = [
        Self("POST /v1/apps/{app}/versions", #"{"number":"1.0","changes":["x"]}"#),
        Self("POST /v1/apps/{app}/announcements", #"{"version":"1.0"}"#), Self("POST /v1/apps/{app}/reload", "{}"),
        Self("GET /v1/apps/{app}/versions.json", []), Self("GET /v1/apps/{app}/versions.html", []),
        Self("GET /v1/apps/{app}/versions.txt", []), Self("GET /v1/apps/{app}/versions/since/{version}.json", []),
    ]
}
