// Without its trait the module does not find the packages that it imports: this says what to do.
#if !ObservabilitySupport
    #error("ChaparObservability needs the trait ObservabilitySupport of the package chapar: name it in traits:")
#endif
