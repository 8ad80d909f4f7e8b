public import ChaparCore

extension BackendFactory {
    /// Web Push: browsers and apps of UnifiedPush, without a vendor's account.
    ///
    /// ## Configuration keys
    /// - `vapid_key_file` (path) or `vapid_key` (secret): the VAPID key of new subscriptions, PEM or 43 characters of
    ///   base64url; `chapar webpush keys` makes one.
    /// - `previous_vapid_keys` (list of maps with `file` or `key`): keys that older subscriptions were made with.
    /// - `subject` (text, required): who answers for the messages, `mailto:` or `https:`.
    /// - `allow_hosts` (list, default `browsers`): where messages may go: `browsers`, `any`, `host`, `host:port`,
    ///   `*.domain`.
    /// - `declarative` (bool, default true), `navigate` (address), `icon` (address): how messages are shown.
    /// - `ttl` (seconds, default 2419200), `token_life` (600 to 86400 s, default 43200), `allow_silent` (bool, default
    ///   false).
    /// - and those of ``CommonBackendOptions`` but `base_url`; `max_connections` (default 2) is for each push service.
    public static let webPush = BackendFactory(
        WebPushBackend.kind,
        otherNames: ["web-push", "web_push", "vapid", "browser", "chrome", "firefox", "safari", "unifiedpush"],
        summary: "Web Push: browsers and UnifiedPush, with VAPID",
        reasons: WebPushBackend.reasons,
        previewAnswer: HTTPAnswer(status: 201)
    ) { section, context in
        WebPushOptions(section).map { WebPushBackend(options: $0, context: context) }
    }
}
