public import ChaparComposition
internal import ChaparCore
public import ChaparHTTP

extension PushClient {
    /// Makes a backend of a plan, which sends through backends of this client by their names.
    ///
    /// ```swift
    /// let plan = DeliveryPlan.firstOf("ios", "android", "sms").movingOn(after: .seconds(10))
    /// let anywhere = try client.add(plan, as: "anywhere", resolver: devices)
    /// ```
    ///
    /// The plan is interpreted in memory, by the same rules as in a gateway (``ChaparComposition/PlanBackend``). The
    /// client goes on owning the plan's backends: removing the new backend ends none of them. If one of them is
    /// removed, it is skipped like a backend that refuses.
    ///
    /// - Parameters:
    ///   - plan: The plan; each of its backends was added to the client before, and is in the plan once.
    ///   - name: The name of the new backend; no other backend of the client has it.
    ///   - retry: The retries of a plan without its own, over all backends together; for each backend where a message
    ///     goes to all of them.
    ///   - resolver: Turns devices into tokens; nil when only tokens are sent to.
    ///   - observe: Called with every attempt, including those whose outcome is not the final one.
    /// - Returns: The backend.
    /// - Throws: `PushError` for a backend that the client does not have or that is there twice, and `HTTPPoolError`
    ///   for a name that is taken and after the client's end.
    @discardableResult
    public func add(
        _ plan: DeliveryPlan,
        as name: String,
        retry: RetryPolicy = RetryPolicy(),
        resolver: RecipientResolver? = nil,
        observe: PlanObserver? = nil
    ) throws -> PlanBackend {
        let backends = try owned.map { NamedBackend($0.key, BorrowedBackend(wrapped: $0.value)) }
        let backend = try PlanBackend(plan, backends, retry: retry, resolver: resolver, observe: observe)
        return try add(as: name) { _ in backend }
    }
}

/// A backend of the client's in a plan, which does not end with the plan.
private struct BorrowedBackend: BackendWrapper {
    let wrapped: any PushBackend

    func send(_ requests: [PushRequest], report: @escaping @Sendable ([DeliveryReport]) -> Void) async {
        await wrapped.send(requests, report: report)
    }

    /// Ends nothing: the client owns the backend.
    func shutdown(grace: Duration) async {}
}
