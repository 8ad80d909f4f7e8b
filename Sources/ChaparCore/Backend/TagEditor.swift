/// Edits tags and profile fields on a platform that has them.
public protocol TagEditor: Sendable {
    /// Sets tags; a null value removes one.
    func setTags(_ tags: JSONObject, of device: DeviceRecord) async throws(PushError)

    /// Checks tags before they are accepted; pointers lead into them (`#/plan`).
    func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding]
    /// Sets tags; returns the platform's answer as it was given.
    func edit(_ tags: JSONObject, of device: DeviceRecord, as attempt: OutboxAttempt) async throws(PushError)
        -> JSONObject
}

extension TagEditor {
    /// Finds nothing.
    public func issues(in tags: JSONObject, of device: DeviceRecord) -> [Finding] { [] }
    /// Sets the tags; returns an empty answer.
    public func edit(_ tags: JSONObject, of device: DeviceRecord, as attempt: OutboxAttempt)
        async throws(PushError) -> JSONObject
    {
        try await setTags(tags, of: device)
        return JSONObject()
    }
}
