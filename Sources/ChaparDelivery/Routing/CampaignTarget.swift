internal import ChaparCore
package import ChaparQueue

/// The target of a campaign, in the form that is stored with it: its audience, and the route or backend of the request.
package struct CampaignTarget: Sendable, Hashable {
    /// The audience.
    package var audience: Audience
    /// The route or backend.
    package var choice: RoutingTable.Choice
    /// The backends that the sender's key may use, sorted; nil for all.
    package var backends: [String]?
    /// The segments that the request's rule names, by which a search finds the campaign.
    ///
    /// They are kept separately, since ``audience`` has the rules of segments in the place of their names.
    package var segments: [String]

    /// Makes a target.
    package init(
        _ audience: Audience,
        choice: RoutingTable.Choice,
        backends: [String]? = nil,
        segments: [String] = []
    ) {
        self.audience = audience
        self.choice = choice
        self.backends = backends?.sorted()
        self.segments = segments
    }

    /// The stored form.
    package var stored: [UInt8] {
        var object: JSONObject = ["audience": audience.json]
        switch choice {
        case .automatic: break
        case .route(let name): object["route"] = .string(name)
        case .backend(let name): object["backend"] = .string(name)
        }
        if let backends { object["backends"] = .array(backends.map { .string($0) }) }
        if !segments.isEmpty { object["segments"] = .array(segments.map { .string($0) }) }
        return JSONValue.object(object).bytes
    }

    /// Reads ``stored``; nil for other bytes.
    package init?(stored: [UInt8]) {
        guard let value = try? JSONValue(parsing: stored), let audience = value["audience"],
            let read = Audience(stored: audience.bytes)
        else { return nil }
        self.audience = read
        backends = value["backends"]?.arrayValue?.compactMap(\.stringValue)
        // An older program stored no segments: only those with lists, which stay in the rule, are known.
        segments = value["segments"]?.arrayValue?.compactMap(\.stringValue) ?? read.rule.segments
        if let name = value["backend"]?.stringValue {
            choice = .backend(name)
        } else if let name = value["route"]?.stringValue {
            choice = .route(name)
        } else {
            choice = .automatic
        }
    }
}
