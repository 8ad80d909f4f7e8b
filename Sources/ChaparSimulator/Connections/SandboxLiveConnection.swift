/// A connection that control calls act on, on its event loop.
protocol SandboxLiveConnection: AnyObject {
    /// Carries out the steps of a control call.
    func perform(_ steps: [SandboxStep])
    /// Cuts the connection in any state.
    func abort()
}
