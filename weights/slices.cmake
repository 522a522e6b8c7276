target_sources(ductl_weights PRIVATE
  )
