import Foundation
public import ChaparCore

/// Clicks that apps and their servers report to a gateway.
extension ChabokTracker: ClickReader {
    /// Reads a click, sends it to the event stream, and passes it on to Chabok if the options say so.
    ///
    /// `context` may hold `origin` (`local`, `remote`, `launch_local`, `launch_remote`, `response`), `os_major` and
    /// `app_state` (`foreground`, `background`, `terminated`): then the finding says whether the arrival is a click and
    /// where to navigate. An arrival that is no click counts as shown. For a Chabok message the finding holds what a
    /// device shows of it (`display`), unless that is nothing.
    public func read(_ click: ReportedClick) async throws(PushError) -> ClickResult {
        let verdict = try Self.verdict(click.context)
        let known = try await click.device.asyncMap { id throws(PushError) in try await records.load(id) } ?? nil
        var action = ChabokNotification.Action(identifier: click.action)
        // The callbacks before iOS 10 report no identifier: a click through one of them opens the notification.
        if let verdict, click.action == nil { action = verdict.isClick ? .opened : .shown }
        let notification = ChabokPayloadParser.parse(click.payload, action: action, isTolerant: true)
        stream.send(.messageReceived(notification))
        let receipt = notification.receipt(of: click.user ?? known?.user, at: click.at)
        var taken = ClickResult(receipt: receipt, notification: notification.json)
        if let verdict { taken.notification["arrival"] = verdict.json }
        if let plan = display.plan(of: notification, at: click.at) { taken.notification["display"] = plan.json }
        guard client.options.forwardsClicks, let id = notification.messageID else { return taken }
        guard let installation = click.installation ?? known?.installation else {
            let problem = PushError(.invalidRequest, "the installation is not known", reason: "installation_missing")
            taken.forwarding = .failure(problem)
            return taken
        }
        do throws(PushError) {
            try await report(
                notification.action,
                messageID: id,
                trackID: notification.trackID,
                installation: installation,
                user: click.user ?? known?.user,
                deviceType: known?.fields["deviceType"]?.stringValue,
                at: click.at
            )
            taken.forwarding = .success(())
        } catch {
            taken.forwarding = .failure(error)
        }
        return taken
    }

    /// Returns the meaning of the arrival when the app names the callback; nil when it does not.
    private static func verdict(_ context: JSONObject) throws(PushError) -> ChabokClickClassifier.Verdict? {
        guard !context.isEmpty else { return nil }
        func wrong(_ detail: String) -> PushError { PushError(.invalidRequest, detail, reason: "bad_context") }
        for (name, _) in context where !["origin", "os_major", "app_state"].contains(name) {
            throw wrong("context.\(name) is not known; there are origin, os_major and app_state")
        }
        let origins: [String: ChabokClickClassifier.Origin] = [
            "local": .local, "remote": .remote, "response": .response,
            "launch_local": .launchOptions(isRemote: false), "launch_remote": .launchOptions(isRemote: true),
        ]
        guard let origin = context["origin"]?.stringValue.flatMap({ origins[$0] }) else {
            throw wrong("context.origin is one of \(origins.keys.sorted().joined(separator: ", "))")
        }
        guard let version = context["os_major"]?.integerValue, (1...1000).contains(version) else {
            throw wrong("context.os_major is the number of the system's version")
        }
        let states: [String: ChabokClickClassifier.AppState] = [
            "foreground": .foreground, "background": .background, "terminated": .terminated,
        ]
        guard let state = context["app_state"]?.stringValue.flatMap({ states[$0] }) else {
            throw wrong("context.app_state is one of \(states.keys.sorted().joined(separator: ", "))")
        }
        return ChabokClickClassifier.classify(origin, osMajor: Int(version), appState: state)
    }
}

extension ChabokClickClassifier.Verdict {
    fileprivate var json: JSONValue {
        [
            "is_click": .bool(isClick), "navigate_here": .bool(navigateHere),
            "will_arrive_again": .bool(willArriveAgain),
        ]
    }
}

extension ChabokNotification {
    /// Returns the receipt for the delivery of its message; nil without a message's id.
    func receipt(of user: String?, at time: Date) -> DeliveryReceipt? {
        guard let messageID else { return nil }
        let event: DeliveryReceipt.Event =
            switch action {
            case .opened, .button: .opened
            case .dismissed, .shown: .delivered
            }
        return DeliveryReceipt(
            event,
            platformID: messageID,
            token: user.map { Recipient.user($0).storedForm },  // The users of one call share the message's id.
            reason: action.name.lowercased(),
            at: time
        )
    }

    /// The notification as a gateway's answer shows it.
    var json: JSONObject {
        var json: JSONObject = [
            "source": .string(source == .apns ? "apns" : "chabok_message"), "action": .string(action.name.lowercased()),
        ]
        func set(_ name: String, _ text: String?) { if let text { json[name] = .string(text) } }
        set("action_id", action.actionID)
        set("url", url)
        set("message_id", messageID)
        set("track_id", trackID)
        set("channel", channel)
        set("title", title)
        set("body", body)
        if let messageData { json["message_data"] = messageData }
        if let customData { json["custom_data"] = customData }
        if isLocalOverride { json["local_override"] = true }
        if isUnrecognised { json["unrecognised"] = true }
        return json
    }
}

extension Optional where Wrapped: Sendable {
    /// Maps the value as `map` does, with an asynchronous body.
    fileprivate func asyncMap<Value>(
        _ body: (Wrapped) async throws(PushError) -> Value
    ) async throws(PushError) -> Value? {
        guard let self else { return nil }
        return try await body(self)
    }
}
