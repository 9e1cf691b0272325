"""python -m demo"""

if __name__ == "__main__":
    try:  # Ctrl-C may come while pandas and Spark are still being read
        from demo.run import main

        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
